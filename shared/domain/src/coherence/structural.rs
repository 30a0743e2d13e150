//! Layer 0 (S2, "Structural checks"): rules on the paths, contents and sources of artifacts, and on proposals. Each rule raises
//! at most one issue for a version, so that its transaction has a constant size.

use serde::{Deserialize, Serialize};

use super::finding::{Detected, Finding, IssueSource, StructuralCheck};
use crate::artifact::{ArtifactAuthor, ArtifactPath};
use crate::text::WorkstreamId;
use crate::tick::Tick;
use crate::value::KnowledgeScope;
use crate::{ArtifactId, DecisionId, ProjectAgentId, ProjectId, Timestamp};

/// Writes of two agents conflict within so many ticks.
pub const WINDOW_TICKS: u64 = 100;

/// The latest version of an artifact, as the checks of other artifacts find it under its path or its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactTrace {
    pub artifact_id: ArtifactId,
    pub workstream: WorkstreamId,
    pub path: ArtifactPath,
    pub version: u32,
    pub author: ArtifactAuthor,
    pub stored_at: Timestamp,
    pub tick: Tick,
}

/// A version that is checked.
#[derive(Debug, Clone, Copy)]
pub struct CheckedVersion<'a> {
    pub project: ProjectId,
    pub artifact_id: ArtifactId,
    pub workstream: &'a WorkstreamId,
    pub path: &'a ArtifactPath,
    /// The file that it is a copy of.
    pub source_path: Option<&'a ArtifactPath>,
    pub author: &'a ArtifactAuthor,
    pub is_empty: bool,
    pub stored_at: Timestamp,
    pub tick: Tick,
    /// Author and tick of the version before.
    pub previous: Option<(&'a ArtifactAuthor, Tick)>,
}

/// The entries of the indexes that concern the version. Each list may contain the version itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Artifacts that are copies of the same file.
    pub at_path: Vec<ArtifactTrace>,
    /// Artifacts with the same content.
    pub with_content: Vec<ArtifactTrace>,
    /// The artifacts from which the version was derived, with their workstreams.
    pub sources: Vec<(ArtifactId, WorkstreamId)>,
}

/// The issues of a version. `scope` is that of the agent that wrote it; people may read everything.
pub fn check(
    version: &CheckedVersion<'_>,
    evidence: &Evidence,
    scope: Option<&KnowledgeScope>,
) -> Vec<Detected> {
    [
        file_conflict(version, &evidence.at_path),
        concurrent_versions(version),
        duplicate(version, &evidence.with_content),
        scope.and_then(|scope| dependency_violation(version, &evidence.sources, scope)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The latest copy of the same file by another agent.
fn file_conflict(version: &CheckedVersion<'_>, at_path: &[ArtifactTrace]) -> Option<Detected> {
    let path = version.source_path?;
    let agent = version.author.agent()?;
    let conflicts = |other: &&ArtifactTrace| {
        other.artifact_id != version.artifact_id
            && other.author.agent().is_some_and(|other| other != agent)
            && ticks_between(version.tick, other.tick) <= WINDOW_TICKS
    };
    let other = at_path.iter().filter(conflicts).max_by_key(|other| (other.stored_at, other.artifact_id))?;
    let ticks = ticks_between(version.tick, other.tick);
    Some(version.pair(
        StructuralCheck::FileConflict,
        other,
        format!("Two agents edit {path}"),
        format!(
            "Agents of the workstreams {} and {} reported the file {path} within {ticks} ticks. One of them may undo what the other did.",
            version.workstream, other.workstream
        ),
    ))
}

/// The version before was written by another agent.
fn concurrent_versions(version: &CheckedVersion<'_>) -> Option<Detected> {
    let agent = version.author.agent()?;
    let (previous, tick) = version.previous?;
    let other = previous.agent().filter(|other| *other != agent)?;
    let ticks = ticks_between(version.tick, tick);
    if ticks > WINDOW_TICKS {
        return None;
    }
    let check = StructuralCheck::ConcurrentVersions;
    let parts = [version.artifact_id.to_string(), agent.to_string(), other.to_string()];
    let finding = Finding {
        affected_workstreams: vec![version.workstream.clone()],
        affected_artifact_ids: vec![version.artifact_id],
        affected_agent_ids: vec![other, agent],
        ..finding(
            check,
            format!("Two agents write versions of {}", version.path),
            format!("Two agents wrote versions of the artifact {} within {ticks} ticks.", version.path),
            version.stored_at,
        )
    };
    Some(Detected { id: check.issue_id(version.project, &parts), finding })
}

/// The oldest artifact of another workstream with the same content. Empty contents are no duplicates.
fn duplicate(version: &CheckedVersion<'_>, with_content: &[ArtifactTrace]) -> Option<Detected> {
    if version.is_empty {
        return None;
    }
    let elsewhere = |other: &&ArtifactTrace| {
        other.artifact_id != version.artifact_id && other.workstream != *version.workstream
    };
    let other = with_content.iter().filter(elsewhere).min_by_key(|it| (it.stored_at, it.artifact_id))?;
    Some(version.pair(
        StructuralCheck::DuplicateArtifact,
        other,
        format!("{} has the content of {}", version.path, other.path),
        format!(
            "The artifact {} of workstream {} has the same content as {} of workstream {}.",
            version.path, version.workstream, other.path, other.workstream
        ),
    ))
}

/// The sources that the agent may not read.
fn dependency_violation(
    version: &CheckedVersion<'_>,
    sources: &[(ArtifactId, WorkstreamId)],
    scope: &KnowledgeScope,
) -> Option<Detected> {
    let mut outside: Vec<_> = sources.iter().filter(|(_, workstream)| !scope.may_read(workstream)).collect();
    outside.sort();
    outside.dedup();
    if outside.is_empty() {
        return None;
    }
    let check = StructuralCheck::DependencyViolation;
    let mut workstreams: Vec<_> = outside.iter().map(|(_, workstream)| workstream.clone()).collect();
    workstreams.sort();
    workstreams.dedup();
    let named: Vec<_> = workstreams.iter().map(ToString::to_string).collect();
    let mut parts: Vec<_> = outside.iter().map(|(id, _)| id.to_string()).collect();
    parts.push(format!("of {}", version.artifact_id));
    let affected = outside.iter().map(|(id, _)| *id);
    let finding = Finding {
        affected_workstreams: with_own(version.workstream, workstreams),
        affected_artifact_ids: std::iter::once(version.artifact_id)
            .chain(affected)
            .take(super::CoherenceIssue::MAX_AFFECTED)
            .collect(),
        affected_agent_ids: version.author.agent().into_iter().collect(),
        ..finding(
            check,
            format!("{} depends on workstreams that its agent may not read", version.path),
            format!(
                "The artifact {} of workstream {} was derived from artifacts of {}, which are not among the readable workstreams of its agent.",
                version.path,
                version.workstream,
                named.join(", ")
            ),
            version.stored_at,
        )
    };
    Some(Detected { id: check.issue_id(version.project, &parts), finding })
}

/// A recommendation of an agent for an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recommendation {
    pub decision_id: DecisionId,
    pub agent_id: ProjectAgentId,
    pub workstream: WorkstreamId,
    /// The subject of the decision in a line.
    pub question: String,
    /// The label of the option.
    pub option: String,
    pub proposed_at: Timestamp,
}

/// Two decisions that wait for a person recommend different options for a common artifact.
pub fn decision_conflict(
    project: ProjectId,
    artifact: ArtifactId,
    own: &Recommendation,
    others: &[Recommendation],
) -> Option<Detected> {
    let conflicts = |other: &&Recommendation| {
        other.decision_id != own.decision_id
            && other.agent_id != own.agent_id
            && !is_same_option(&own.option, &other.option)
    };
    let other = others.iter().filter(conflicts).max_by_key(|it| (it.proposed_at, it.decision_id))?;
    let check = StructuralCheck::DecisionConflict;
    let parts = [own.decision_id.to_string(), other.decision_id.to_string()];
    let finding = Finding {
        affected_workstreams: with_own(&own.workstream, vec![other.workstream.clone()]),
        affected_artifact_ids: vec![artifact],
        affected_agent_ids: vec![own.agent_id, other.agent_id],
        ..finding(
            check,
            format!("Agents recommend “{}” and “{}”", own.option, other.option),
            format!(
                "The decisions “{}” ({}) and “{}” ({}) concern the same artifact, and recommend different options.",
                own.question, own.decision_id, other.question, other.decision_id
            ),
            own.proposed_at.max(other.proposed_at),
        )
    };
    Some(Detected { id: check.issue_id(project, &parts), finding })
}

fn is_same_option(one: &str, other: &str) -> bool {
    one.trim().to_lowercase() == other.trim().to_lowercase()
}

const fn ticks_between(one: Tick, other: Tick) -> u64 {
    one.get().abs_diff(other.get())
}

/// The own workstream, then the others.
fn with_own(own: &WorkstreamId, mut others: Vec<WorkstreamId>) -> Vec<WorkstreamId> {
    others.retain(|other| other != own);
    others.insert(0, own.clone());
    others
}

/// A finding that names no parts yet.
fn finding(check: StructuralCheck, title: String, description: String, evidence_at: Timestamp) -> Finding {
    Finding {
        source: IssueSource::Structural { check },
        category: check.category(),
        severity: check.severity(),
        title,
        description,
        affected_workstreams: Vec::new(),
        affected_artifact_ids: Vec::new(),
        affected_agent_ids: Vec::new(),
        evidence_at,
    }
}

impl CheckedVersion<'_> {
    /// An issue between this artifact and another one.
    fn pair(
        &self,
        check: StructuralCheck,
        other: &ArtifactTrace,
        title: String,
        description: String,
    ) -> Detected {
        let parts = [self.artifact_id.to_string(), other.artifact_id.to_string()];
        let finding = Finding {
            affected_workstreams: with_own(self.workstream, vec![other.workstream.clone()]),
            affected_artifact_ids: vec![self.artifact_id, other.artifact_id],
            affected_agent_ids: self.author.agent().into_iter().chain(other.author.agent()).collect(),
            ..finding(check, title, description, self.stored_at.max(other.stored_at))
        };
        Detected { id: check.issue_id(self.project, &parts), finding }
    }
}
