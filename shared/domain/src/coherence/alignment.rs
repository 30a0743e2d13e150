//! Layer 1 for decisions (S2, "Decision-artifact alignment"): which artifacts do not fit a decision that was taken.

use serde::{Deserialize, Serialize};

use super::category::CoherenceCategory;
use super::comparison::{ComparedArtifact, ComparisonEngine, Thresholds, percent};
use super::finding::{AlignmentCheck, Detected, Finding, IssueSource, alignment_issue_id};
use crate::artifact::VersionRecord;
use crate::effect::Severity;
use crate::text::{WorkstreamId, cut};
use crate::{ArtifactId, DecisionId, ProjectAgentId, ProjectId, Timestamp};

/// A scan compares the latest decisions of a project, at most so many.
pub const MAX_DECISIONS: usize = 50;
/// Characters of a question and of a choice in an issue.
const MAX_QUESTION: usize = 200;
const MAX_CHOICE: usize = 100;

/// A choice between options that was made, as artifacts are compared with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedDecision {
    pub decision_id: DecisionId,
    pub project_id: ProjectId,
    /// The agent that proposed the options.
    pub agent_id: ProjectAgentId,
    pub workstream: WorkstreamId,
    pub question: String,
    /// The chosen option, or the answer in other words.
    pub choice: String,
    /// The description of the option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Why it was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The artifacts that the agent named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub affected_artifact_ids: Vec<ArtifactId>,
    pub resolved_at: Timestamp,
}

impl ResolvedDecision {
    /// The text that is compared, at most as long as that of an artifact. A long question leaves room for the choice.
    pub fn text(&self) -> String {
        let question = cut(&self.question, VersionRecord::HEAD_CHARS / 2);
        let parts = [Some(&question), Some(&self.choice), self.description.as_ref(), self.reason.as_ref()];
        let text = parts.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join("\n");
        cut(&text, VersionRecord::HEAD_CHARS)
    }

    fn names(&self, artifact: ArtifactId) -> bool {
        self.affected_artifact_ids.contains(&artifact)
    }
}

/// The first line of a text in an issue.
fn first_line(text: &str, max: usize) -> String {
    cut(text.lines().next().unwrap_or_default(), max)
}

/// Whether an artifact may not fit a decision. S2 finds named artifacts below the threshold of the alignment. Artifacts on the subject of
/// the decision are an addition: similarity cannot tell whether they contradict it, so they are candidates only for a model that can.
pub(super) fn check(
    decision: &ResolvedDecision,
    artifact: &ComparedArtifact,
    similarity: f64,
    thresholds: Thresholds,
    is_reviewed: bool,
) -> Option<AlignmentCheck> {
    let is_named = decision.names(artifact.id);
    if is_named && similarity < thresholds.alignment {
        return Some(AlignmentCheck::NotReflected);
    }
    let same_subject = if is_named { thresholds.advisory } else { thresholds.promotion };
    (is_reviewed && similarity >= same_subject).then_some(AlignmentCheck::SameSubject)
}

pub(super) fn detected(
    project: ProjectId,
    (decision, artifact): (&ResolvedDecision, &ComparedArtifact),
    check: AlignmentCheck,
    engine: ComparisonEngine,
    similarity: f64,
) -> Detected {
    let percent = percent(similarity);
    let (question, choice) =
        (first_line(&decision.question, MAX_QUESTION), first_line(&decision.choice, MAX_CHOICE));
    let path = &artifact.path;
    let (category, title, what) = match check {
        AlignmentCheck::NotReflected => (
            CoherenceCategory::Gap,
            format!("{path} does not reflect “{choice}”"),
            "The decision names the artifact, but their texts are about different things: the decision may be stale, or the artifact does not follow it.",
        ),
        AlignmentCheck::SameSubject => (
            CoherenceCategory::Contradiction,
            format!("{path} may contradict “{choice}”"),
            "The artifact is about the subject of the decision. Their similarity does not say whether it follows the decision.",
        ),
    };
    let mut workstreams = vec![artifact.workstream.clone()];
    workstreams.extend(Some(decision.workstream.clone()).filter(|own| *own != artifact.workstream));
    let author = artifact.author.filter(|author| *author != decision.agent_id);
    let finding = Finding {
        source: IssueSource::Alignment { check, decision_id: decision.decision_id, engine, percent },
        category,
        severity: Severity::Medium,
        title,
        description: format!(
            "Decision “{question}” ({}), chosen: “{choice}”; artifact {path} ({}); {percent} % similar ({engine}). {what} Nobody has confirmed it.",
            decision.decision_id, artifact.workstream
        ),
        affected_workstreams: workstreams,
        affected_artifact_ids: vec![artifact.id],
        affected_agent_ids: author.into_iter().chain([decision.agent_id]).collect(),
        evidence_at: artifact.stored_at.max(decision.resolved_at),
    };
    Detected { id: alignment_issue_id(project, decision.decision_id, artifact.id), finding }
}
