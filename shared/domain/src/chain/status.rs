//! Status of a chain, its transition table, and why an operation is refused (S0 8.4, 8.5).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::AgentSessionId;
use crate::session::AgentSessionStatus;

/// Status of a chain (S0 8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum SessionChainStatus {
    /// The work may continue in new sessions.
    Active,
    /// The work is done.
    Completed,
    /// The owner cancelled the chain with all of its sessions.
    Cancelled,
}

impl SessionChainStatus {
    /// In the order of S0 8.5.
    pub const ALL: [Self; 3] = [Self::Active, Self::Completed, Self::Cancelled];
}

crate::names::named!(SessionChainStatus {
    Active => "Active",
    Completed => "Completed",
    Cancelled => "Cancelled",
});

/// Operations on a chain. Names follow the methods of S0 8.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChainOperation {
    /// The handoff document of the current session is recorded.
    InitiateHandoff,
    /// Another session continues the work.
    AttachSession,
    Complete,
    Cancel,
}

impl ChainOperation {
    pub const ALL: [Self; 4] = [Self::InitiateHandoff, Self::AttachSession, Self::Complete, Self::Cancel];

    /// **The transition table.** Returns the status after `self` in status `from`, or `None` if the operation is not valid there.
    pub const fn next(self, from: SessionChainStatus) -> Option<SessionChainStatus> {
        use SessionChainStatus as S;
        match (self, from) {
            (Self::InitiateHandoff | Self::AttachSession, S::Active) => Some(S::Active),
            (Self::Complete, S::Active) => Some(S::Completed),
            (Self::Cancel, S::Active) => Some(S::Cancelled),
            (_, S::Completed | S::Cancelled) => None,
        }
    }
}

/// Why an operation was refused. The chain is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    #[error("the chain is {status}; only an Active chain can be continued, completed or cancelled")]
    NotActive { status: SessionChainStatus },
    #[error("session {given} is not the current session of the chain, which is {current}")]
    NotCurrent { given: AgentSessionId, current: AgentSessionId },
    #[error("session {0} is in the chain already")]
    AlreadyInChain(AgentSessionId),
    #[error("the chain has the maximum of {max} sessions; start a new session for the rest of the work")]
    Full { max: usize },
    #[error("the current session of the chain, {session}, is {status}{hint}")]
    CurrentBusy {
        session: AgentSessionId,
        status: AgentSessionStatus,
        /// Appended to the message.
        hint: &'static str,
    },
}

impl ChainError {
    /// Stable error code (decision 5).
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotActive { .. } => "chain-over",
            Self::NotCurrent { .. } => "not-current",
            Self::AlreadyInChain(_) => "already-in-chain",
            Self::Full { .. } => "chain-full",
            Self::CurrentBusy { .. } => "chain-busy",
        }
    }
}
