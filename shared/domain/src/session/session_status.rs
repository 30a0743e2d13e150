//! The statuses of a session (S0 8.5).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Status of a session (S0 8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum AgentSessionStatus {
    /// Waiting for a slot of the owner's pool, or for the sidecar to start.
    Queued,
    /// The agent is working.
    Running,
    /// An interrupt was sent to the sidecar and is not acknowledged yet.
    Interrupting,
    /// The owner ended the turn. The session accepts messages.
    Interrupted,
    /// A pause was sent to the sidecar and is not acknowledged yet.
    Pausing,
    /// The agent is suspended within its turn.
    Paused,
    /// A resume was sent to the sidecar and is not acknowledged yet.
    Resuming,
    /// A cancellation was sent to the sidecar and is not acknowledged yet.
    Cancelling,
    /// The owner cancelled the session.
    Cancelled,
    /// The agent asked a question and waits for the answer.
    WaitingForInput,
    /// The agent submitted a plan and waits for approval.
    WaitingForApproval,
    /// No turn is running. The session accepts messages.
    Idle,
    /// The context window is full. The work continues in another session.
    ContextExhausted,
    /// The owner closed the session or approved its output.
    Completed,
    /// The session failed, or the owner rejected its output. It can be retried.
    Failed,
}

impl AgentSessionStatus {
    /// All statuses, in the order of S0 8.5.
    pub const ALL: [Self; 15] = [
        Self::Queued,
        Self::Running,
        Self::Interrupting,
        Self::Interrupted,
        Self::Pausing,
        Self::Paused,
        Self::Resuming,
        Self::Cancelling,
        Self::Cancelled,
        Self::WaitingForInput,
        Self::WaitingForApproval,
        Self::Idle,
        Self::ContextExhausted,
        Self::Completed,
        Self::Failed,
    ];

    /// Whether a command was sent to the sidecar and its acknowledgement is pending (S0 8.5).
    pub const fn is_intermediate(self) -> bool {
        matches!(self, Self::Interrupting | Self::Pausing | Self::Resuming | Self::Cancelling)
    }

    /// Whether no operation but a retry leaves this status (S0 8.5).
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Cancelled | Self::Completed | Self::ContextExhausted | Self::Failed)
    }

    /// Whether the agent waits for an answer or decision of the owner.
    pub const fn is_waiting(self) -> bool {
        matches!(self, Self::WaitingForInput | Self::WaitingForApproval)
    }

    /// Whether the session keeps this status when its process ends (decision 14).
    pub const fn survives_its_process(self) -> bool {
        matches!(
            self,
            Self::Idle | Self::Interrupted | Self::Paused | Self::WaitingForInput | Self::WaitingForApproval
        )
    }
}

crate::names::named!(AgentSessionStatus {
    Queued => "Queued",
    Running => "Running",
    Interrupting => "Interrupting",
    Interrupted => "Interrupted",
    Pausing => "Pausing",
    Paused => "Paused",
    Resuming => "Resuming",
    Cancelling => "Cancelling",
    Cancelled => "Cancelled",
    WaitingForInput => "WaitingForInput",
    WaitingForApproval => "WaitingForApproval",
    Idle => "Idle",
    ContextExhausted => "ContextExhausted",
    Completed => "Completed",
    Failed => "Failed",
});
