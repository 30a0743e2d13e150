//! The end of an agent of a project by its owner (S2 `KillRequest`, `KillResponse`; decision 90).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{AgentSession, Checkpoint, CheckpointCause, SessionError};
use crate::{DecisionId, DomainContext, Events, Timestamp};

/// The time that an agent has to stop before the runtime ends its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grace {
    /// The runtime ends the process at once.
    None,
    /// The agent is asked to stop. The limits for a stop apply.
    Unlimited,
    /// The agent is asked to stop. The runtime ends the process after this time.
    Within(Duration),
}

/// The progress of a kill.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Kill {
    /// When the runtime ends the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deadline: Option<Timestamp>,
    /// The decisions that the agent waited for when it was asked to stop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pending: Vec<DecisionId>,
    /// Whether the runtime was ordered to end a process, also if that completed another request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_enforced: bool,
    /// Whether the agent stopped, so that nothing had to be ended. `None` until the session is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    is_clean: Option<bool>,
}

/// The outcome of a kill (S2 `KillResponse`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KillOutcome<'a> {
    /// The state of the agent when it stopped.
    pub state: Option<&'a Checkpoint>,
    /// Whether no process had to be ended.
    pub is_clean: bool,
}

impl AgentSession {
    /// Cancels the session. Repeating it with a shorter grace period shortens the wait.
    ///
    /// # Errors
    /// The refusal of the cancellation.
    pub fn kill(&mut self, grace: Grace, ctx: &mut DomainContext<'_>) -> Result<Events, SessionError> {
        let deadline = match grace {
            Grace::Within(limit) => Some(ctx.now + limit),
            Grace::None | Grace::Unlimited => None,
        };
        let events = self.request_cancel(grace == Grace::None, ctx)?;
        if let Some(deadline) = deadline
            && !self.status().is_terminal()
        {
            let kill = self.kill.get_or_insert_default();
            kill.deadline = Some(kill.deadline.map_or(deadline, |known| known.min(deadline)));
        }
        Ok(events)
    }

    /// Ends the process of a session that has no stop to confirm.
    pub(crate) fn force_stop(&mut self, ctx: &mut DomainContext<'_>) -> Events {
        self.order_kill(false, ctx)
    }

    /// The outcome of the kill; `None` unless the session was cancelled.
    pub fn kill_outcome(&self) -> Option<KillOutcome<'_>> {
        let is_clean = self.kill.as_ref()?.is_clean?;
        let state =
            self.checkpoints().last().filter(|latest| latest.serialized_by == CheckpointCause::KillGrace);
        Some(KillOutcome { state, is_clean })
    }

    /// When the runtime ends the process of an agent that does not stop.
    pub(super) fn kill_deadline(&self) -> Option<Timestamp> {
        self.kill.as_ref().filter(|_| self.is_live()).and_then(|kill| kill.deadline)
    }

    /// Ends the process, because the grace period is over.
    pub(super) fn on_kill_deadline(&mut self, ctx: &mut DomainContext<'_>) -> Events {
        if let Some(kill) = &mut self.kill {
            kill.deadline = None;
        }
        self.record_enforcement();
        self.enforce_stop(ctx)
    }

    /// Keeps the ids of the open decisions, because the request to stop closes them.
    pub(super) fn prepare_stop(&mut self) {
        if self.project().is_some() {
            let pending = self.open_decision_ids();
            self.kill.get_or_insert_default().pending = pending;
        }
    }

    /// Records that the process of the agent is ended, if it has one.
    pub(super) fn record_enforcement(&mut self) {
        if self.project().is_some() && self.run_state.current().is_some() {
            self.kill.get_or_insert_default().is_enforced = true;
        }
    }

    /// The agent confirmed that it stopped.
    pub(super) fn checkpoint_stop(&mut self, ctx: &DomainContext<'_>) {
        if let Some(kill) = &mut self.kill {
            let pending = std::mem::take(&mut kill.pending);
            self.make_checkpoint(CheckpointCause::KillGrace, pending, ctx.now);
        }
    }

    /// Records whether the agent stopped without its process being ended.
    pub(super) fn record_stop(&mut self, is_clean: bool) {
        if let Some(kill) = &mut self.kill {
            *kill = Kill { is_clean: Some(is_clean && !kill.is_enforced), ..Kill::default() };
        }
    }
}
