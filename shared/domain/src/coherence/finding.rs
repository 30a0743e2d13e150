//! The content of a coherence issue: its source, its category and the affected parts (S2 `CoherenceEvent`). A part is an artifact, or the
//! work of an agent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::category::CoherenceCategory;
use super::comparison::ComparisonEngine;
use crate::effect::Severity;
use crate::names::named;
use crate::text::WorkstreamId;
use crate::{
    AgentSessionId, ArtifactId, CoherenceIssueId, DecisionId, ProjectAgentId, ProjectId, Timestamp, UserId,
};

/// The content of a coherence issue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    pub source: IssueSource,
    /// The kind of problem between the parts.
    pub category: CoherenceCategory,
    pub severity: Severity,
    pub title: String,
    pub description: String,
    pub affected_workstreams: Vec<WorkstreamId>,
    pub affected_artifact_ids: Vec<ArtifactId>,
    /// The agents whose work is affected.
    pub affected_agent_ids: Vec<ProjectAgentId>,
    /// The time at which the latest affected version was stored.
    pub evidence_at: Timestamp,
}

/// What found an issue: a layer of checks, an agent or a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum IssueSource {
    /// A rule on paths, hashes, provenance or proposals (layer 0).
    Structural { check: StructuralCheck },
    /// The texts of two artifacts are similar (layer 1).
    Similarity {
        /// The engine that compared them.
        #[serde(default)]
        engine: ComparisonEngine,
        /// The similarity of their texts, from 0 to 100.
        percent: u8,
    },
    /// An artifact may not fit a decision that was taken (layer 1).
    Alignment {
        /// How it may not fit.
        check: AlignmentCheck,
        decision_id: DecisionId,
        /// The engine that compared them.
        engine: ComparisonEngine,
        /// The similarity of their texts, from 0 to 100.
        percent: u8,
    },
    /// An agent flagged it.
    Agent {
        agent_id: ProjectAgentId,
        /// The session in which the agent flagged it.
        session_id: AgentSessionId,
    },
    /// A person reported it.
    Person { id: UserId },
}

impl IssueSource {
    /// The decision that the issue is about.
    pub const fn decision_id(&self) -> Option<DecisionId> {
        match self {
            Self::Alignment { decision_id, .. } => Some(*decision_id),
            Self::Structural { .. } | Self::Similarity { .. } | Self::Agent { .. } | Self::Person { .. } => {
                None
            }
        }
    }

    /// The similarity of the texts that were compared, from 0 to 100. Only layer 1 compares texts.
    pub const fn similarity_percent(&self) -> Option<u8> {
        match self {
            Self::Similarity { percent, .. } | Self::Alignment { percent, .. } => Some(*percent),
            Self::Structural { .. } | Self::Agent { .. } | Self::Person { .. } => None,
        }
    }
}

/// How an artifact may not fit a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlignmentCheck {
    /// The decision names the artifact, whose text is about something else.
    NotReflected,
    /// The text of the artifact is about the subject of the decision, and may contradict it.
    SameSubject,
}

named!(AlignmentCheck {
    NotReflected => "not_reflected",
    SameSubject => "same_subject",
});

/// A rule of layer 0 (S2, "Structural checks").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StructuralCheck {
    /// Two agents report the same file of the project within the window.
    FileConflict,
    /// Two agents write versions of the same artifact within the window.
    ConcurrentVersions,
    /// Artifacts of different workstreams have the same content.
    DuplicateArtifact,
    /// An artifact is derived from one that its agent may not read.
    DependencyViolation,
    /// Two agents recommend different options for the same artifact.
    DecisionConflict,
}

named!(StructuralCheck {
    FileConflict => "file_conflict",
    ConcurrentVersions => "concurrent_versions",
    DuplicateArtifact => "duplicate_artifact",
    DependencyViolation => "dependency_violation",
    DecisionConflict => "decision_conflict",
});

impl StructuralCheck {
    pub const fn category(self) -> CoherenceCategory {
        match self {
            Self::FileConflict | Self::ConcurrentVersions | Self::DecisionConflict => {
                CoherenceCategory::Contradiction
            }
            Self::DuplicateArtifact => CoherenceCategory::Duplication,
            Self::DependencyViolation => CoherenceCategory::DependencyViolation,
        }
    }

    /// S2 gives the severities of file conflicts and duplicates.
    pub const fn severity(self) -> Severity {
        match self {
            Self::FileConflict | Self::ConcurrentVersions | Self::DecisionConflict => Severity::High,
            Self::DependencyViolation => Severity::Medium,
            Self::DuplicateArtifact => Severity::Low,
        }
    }

    /// The id of the issue that this rule raises about `parts`, in any order. The same parts have one issue.
    pub(super) fn issue_id(self, project: ProjectId, parts: &[String]) -> CoherenceIssueId {
        let mut parts = parts.to_vec();
        parts.sort();
        issue_id(project, &format!("{self}\n{}", parts.join("\n")))
    }
}

/// The id of an issue that an agent flags. The same issue flagged again by the same agent has the same id.
pub fn flagged_issue_id(
    project: ProjectId,
    agent: ProjectAgentId,
    category: CoherenceCategory,
    title: &str,
    artifacts: &[ArtifactId],
) -> CoherenceIssueId {
    let mut artifacts: Vec<_> = artifacts.iter().map(ToString::to_string).collect();
    artifacts.sort();
    issue_id(project, &format!("agent\n{agent}\n{category}\n{}\n{title}", artifacts.join(",")))
}

/// The id of the issue about two similar artifacts, in any order.
pub(super) fn similar_issue_id(project: ProjectId, one: ArtifactId, other: ArtifactId) -> CoherenceIssueId {
    let (first, second) = (one.min(other), one.max(other));
    issue_id(project, &format!("similarity\n{first}\n{second}"))
}

/// The id of the issue about an artifact and a decision.
pub(super) fn alignment_issue_id(
    project: ProjectId,
    decision: DecisionId,
    artifact: ArtifactId,
) -> CoherenceIssueId {
    issue_id(project, &format!("alignment\n{decision}\n{artifact}"))
}

fn issue_id(project: ProjectId, name: &str) -> CoherenceIssueId {
    CoherenceIssueId::new(Uuid::new_v5(&project.uuid(), format!("coherence\n{name}").as_bytes()))
}

/// A finding with the id of its issue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detected {
    pub id: CoherenceIssueId,
    pub finding: Finding,
}
