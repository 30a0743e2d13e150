//! The restart of an agent's process under a changed control mode (S2, "Mode Transitions"; decision 90).
//!
//! | status | effect |
//! |---|---|
//! | Running | the agent pauses, its process ends, and a new one continues the conversation. Without the capability to pause, its process is ended at once |
//! | waiting, Idle, Interrupted, Paused | the process ends, and the status stays. The next work starts a new one |
//! | intermediate, or held by a brake | the status resolves or the brake is released first |

use serde::{Deserialize, Serialize};

use super::{AgentSession, AgentSessionStatus, RunPhase, SessionError};
use crate::control_mode::{ControlModeSetting, ModeRevision};
use crate::{DomainContext, Events, SessionEvent};

/// The latest restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProcessRestart {
    /// The control mode that the restart is for.
    revision: ModeRevision,
    /// Whether the process has still to end.
    is_pending: bool,
}

impl AgentSession {
    /// Restarts the process if it was configured before the control mode changed. Each change of the mode restarts it once. A process
    /// whose successor could not continue the conversation keeps running.
    pub fn restart_process(&mut self, mode: &ControlModeSetting, ctx: &DomainContext<'_>) -> Events {
        let resumes = self.capabilities().is_some_and(|can| can.resume_conversation);
        let is_outdated = self.configured_at().is_some_and(|at| at < mode.changed_at());
        let ends = self.status().is_terminal()
            || self.cancel_accepted
            || self.status() == AgentSessionStatus::Cancelling;
        if !self.is_live()
            || !resumes
            || !is_outdated
            || ends
            || !ctx.deadlines.durable_workspace
            || self.is_restarted_for(mode.revision())
        {
            return Events::new();
        }
        self.process_restart = Some(ProcessRestart { revision: mode.revision(), is_pending: true });
        self.touch_control();
        vec![SessionEvent::ProcessRestartRequested { mode_revision: mode.revision() }]
    }

    /// Whether the process restarts, or was restarted, for this control mode.
    pub fn is_restarted_for(&self, revision: ModeRevision) -> bool {
        self.process_restart.is_some_and(|restart| restart.revision == revision)
    }

    pub(super) fn is_restarting(&self) -> bool {
        self.process_restart.is_some_and(|restart| restart.is_pending)
    }

    /// Discards a restart, because the session ends.
    pub(super) const fn drop_restart(&mut self) {
        if let Some(restart) = &mut self.process_restart {
            restart.is_pending = false;
        }
    }

    /// Performs the next step of a restart. Returns no events while it waits, and when it is done.
    pub(crate) fn apply_restart(&mut self, ctx: &mut DomainContext<'_>) -> Result<Events, SessionError> {
        if !self.is_restarting() {
            return Ok(Events::new());
        }
        match self.run_state.current().map(|run| run.phase) {
            // The next run has the configuration of the changed mode.
            Some(RunPhase::Launching) | None => {
                self.drop_restart();
                Ok(Events::new())
            }
            Some(RunPhase::Ending { .. }) => Ok(Events::new()),
            Some(RunPhase::Live) if self.is_held() || self.status().is_intermediate() => Ok(Events::new()),
            // A message may start a turn at any moment, unless the agent is paused: then it could not arrive before the resume, which
            // waits for the restart.
            Some(RunPhase::Live)
                if self.status() != AgentSessionStatus::Paused && !self.delivery.in_flight().is_empty() =>
            {
                Ok(Events::new())
            }
            Some(RunPhase::Live) if self.status() == AgentSessionStatus::Running => self.hold_agent(ctx),
            Some(RunPhase::Live) => Ok(self.order_stop(ctx)),
        }
    }
}
