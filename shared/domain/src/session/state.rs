//! The state of a session: its status with the data that belongs to that status alone, and the commands that statuses wait for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::AgentSessionStatus;
use crate::value::FailureReason;
use crate::{CommandId, CommandRef, DomainContext, Timestamp};

/// The status with the data that belongs to that status alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all_fields = "camelCase")]
pub(super) enum State {
    Queued,
    Running,
    Interrupting {
        outstanding: PendingCommand,
    },
    Interrupted,
    Pausing {
        outstanding: PendingCommand,
    },
    Paused,
    Resuming {
        outstanding: PendingCommand,
    },
    Cancelling {
        outstanding: PendingCommand,
    },
    Cancelled,
    WaitingForInput,
    WaitingForApproval,
    Idle,
    ContextExhausted {
        /// Until when the agent may write its handoff document.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        document_awaited_until: Option<Timestamp>,
    },
    Completed,
    Failed {
        failure: Failure,
    },
}

impl State {
    pub(super) const fn status(&self) -> AgentSessionStatus {
        use AgentSessionStatus as S;
        match self {
            Self::Queued => S::Queued,
            Self::Running => S::Running,
            Self::Interrupting { .. } => S::Interrupting,
            Self::Interrupted => S::Interrupted,
            Self::Pausing { .. } => S::Pausing,
            Self::Paused => S::Paused,
            Self::Resuming { .. } => S::Resuming,
            Self::Cancelling { .. } => S::Cancelling,
            Self::Cancelled => S::Cancelled,
            Self::WaitingForInput => S::WaitingForInput,
            Self::WaitingForApproval => S::WaitingForApproval,
            Self::Idle => S::Idle,
            Self::ContextExhausted { .. } => S::ContextExhausted,
            Self::Completed => S::Completed,
            Self::Failed { .. } => S::Failed,
        }
    }

    pub(super) const fn pending_command(&self) -> Option<&PendingCommand> {
        match self {
            Self::Interrupting { outstanding }
            | Self::Pausing { outstanding }
            | Self::Resuming { outstanding }
            | Self::Cancelling { outstanding } => Some(outstanding),
            _ => None,
        }
    }

    pub(super) const fn pending_command_mut(&mut self) -> Option<&mut PendingCommand> {
        match self {
            Self::Interrupting { outstanding }
            | Self::Pausing { outstanding }
            | Self::Resuming { outstanding }
            | Self::Cancelling { outstanding } => Some(outstanding),
            _ => None,
        }
    }
}

/// A command of the two-phase life cycle (S3), or another command that a deadline watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LifecycleCommand {
    /// `interrupt`
    Interrupt,
    /// `pause`
    Pause,
    /// `resume`
    Resume,
    /// `stop`
    Stop,
    /// `reload_config`
    Reload,
    /// `begin`
    Begin,
    /// `answer` and `plan_decision`
    Answer,
    /// `run_validation`
    Validate,
    /// `adjust`
    Adjust,
}

crate::names::named!(LifecycleCommand {
    Interrupt => "Interrupt",
    Pause => "Pause",
    Resume => "Resume",
    Stop => "Stop",
    Reload => "Reload",
    Begin => "Begin",
    Answer => "Answer",
    Validate => "Validate",
    Adjust => "Adjust",
});

/// A command that waits for its acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingCommand {
    pub command_id: CommandId,
    /// Number of attempts to send it; 0 while it waits for a run.
    pub attempt: u8,
    pub sent_at: Timestamp,
    /// When the sidecar stored it in its spool.
    pub received_at: Option<Timestamp>,
    /// Whether the owner was notified that it is late.
    pub late: bool,
    /// When a cancellation was accepted that waits for this pause or resume (decision 16).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_accepted_at: Option<Timestamp>,
}

impl PendingCommand {
    /// A command that is sent as `command`, or that waits for a run if there is none.
    pub(super) fn new(command: Option<CommandRef>, ctx: &mut DomainContext<'_>) -> Self {
        Self {
            command_id: command.map_or_else(|| ctx.command_id(), |c| c.command_id),
            attempt: command.map_or(0, |c| c.attempt),
            sent_at: ctx.now,
            received_at: None,
            late: false,
            cancel_accepted_at: None,
        }
    }
}

/// Why a session failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// Category of the failure.
    pub reason: FailureReason,
    /// Explanation for a person.
    pub message: Option<String>,
}
