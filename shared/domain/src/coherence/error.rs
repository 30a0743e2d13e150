//! Errors of operations on coherence issues. Each has a stable code and a sentence that says what to do (decision 5).

use super::status::CoherenceState;
use crate::text::WorkstreamId;

/// A refused operation. The issue is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CoherenceError {
    #[error("the issue was {state} already; report a new one if there is another problem")]
    Over { state: CoherenceState },
    #[error("the issue was confirmed; resolve it when its parts fit together")]
    Confirmed,
    #[error(
        "workstream `{workstream}` is not readable for the agent; agents flag issues in workstreams that they may read"
    )]
    OutsideScope { workstream: WorkstreamId },
}

impl CoherenceError {
    /// Stable error code (decision 5).
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Over { .. } => "coherence-over",
            Self::Confirmed => "coherence-confirmed",
            Self::OutsideScope { .. } => "outside-workstream",
        }
    }
}
