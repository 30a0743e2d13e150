//! What an outcome is about (decision 76).

use crate::{AgentSessionId, ArtifactId, BrakeId, CoherenceIssueId, DecisionId};

/// What an outcome is about. An agent's trust changes once for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutcomeSource {
    Decision(DecisionId),
    Brake(BrakeId),
    /// The objective of this session and of those that continue its work.
    Objective(AgentSessionId),
    /// The review of a version of an artifact.
    Artifact {
        id: ArtifactId,
        version: u32,
    },
    /// A coherence issue that the agent flagged, or did not notice.
    Coherence(CoherenceIssueId),
}

impl OutcomeSource {
    /// Whether another event about the same source can come at any time: a failed session can be retried and end again. Decisions,
    /// holds, reviews of a version and coherence issues count once, so that only a repeated event has to be recognized.
    pub const fn recurs(self) -> bool {
        match self {
            Self::Objective(_) => true,
            Self::Decision(_) | Self::Brake(_) | Self::Artifact { .. } | Self::Coherence(_) => false,
        }
    }
}

impl std::fmt::Display for OutcomeSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Decision(id) => write!(f, "decision#{id}"),
            Self::Brake(id) => write!(f, "brake#{id}"),
            Self::Objective(id) => write!(f, "objective#{id}"),
            Self::Artifact { id, version } => write!(f, "artifact#{id}#{version}"),
            Self::Coherence(id) => write!(f, "coherence#{id}"),
        }
    }
}
