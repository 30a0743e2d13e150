//! Why an operation on a brake was refused.

use crate::AgentSessionId;

/// Why an operation on a brake was refused. The brake and the pool are unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BrakeError {
    /// The owner has too many brakes.
    #[error("{max} brakes are in force already; release some first")]
    TooMany { max: usize },
    /// Too many sessions were released one by one.
    #[error("{max} sessions can be released from a brake; release the whole brake")]
    TooManyReleased { max: usize },
    /// The brake was released before.
    #[error("this brake is released")]
    Over,
    /// The brake does not hold the named session.
    #[error("this brake does not hold session {session_id}")]
    NotHeld { session_id: AgentSessionId },
}

impl BrakeError {
    /// Stable error code (decision 5).
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooMany { .. } => "too-many-brakes",
            Self::TooManyReleased { .. } => "too-many-released",
            Self::Over => "brake-over",
            Self::NotHeld { .. } => "not-braked",
        }
    }
}
