//! Runs that begin: creation, the sidecar's readiness, and a launch that takes too long (decisions 7, 12, 23).

use super::{AgentSession, AgentSessionStatus, Operation, ProcessState, RunPhase, SessionError};
use crate::value::{Capabilities, FailureReason};
use crate::{CommandRef, DomainContext, Events, RunId, SessionEvent};

impl AgentSession {
    /// Creates the run for which a slot was allocated (decision 7). Does nothing if no run is needed any more.
    pub fn mint_run(&mut self, ctx: &mut DomainContext<'_>) -> Option<(RunId, Events)> {
        let cause = self.slot_wanted()?;
        let run = self.run_state.mint(cause, ctx)?;
        let (run_id, ordinal) = (run.id, run.ordinal);
        self.touch_control();
        Some((run_id, vec![SessionEvent::RunRequested { run_id, ordinal, cause }]))
    }

    /// Handles the sidecar's readiness: the agent begins (decision 7). In a session that has ended meanwhile, nothing is started. A
    /// second report refines the capabilities to those of the actual agent.
    pub(crate) fn sidecar_ready(
        &mut self,
        capabilities: Capabilities,
        api_key_hash: &str,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let Some(run) = self.run_state.current_mut() else { return Ok(Vec::new()) };
        if run.phase != RunPhase::Launching {
            run.capabilities = Some(capabilities);
            let mut events = self.record_metering(capabilities.unmetered);
            events.extend(self.report_missing(Self::NO_PLANS));
            return Ok(events);
        }
        let command = CommandRef { command_id: ctx.command_id(), run_id: run.id, attempt: 1 };
        run.phase = RunPhase::Live;
        run.capabilities = Some(capabilities);
        run.begin = Some(command.command_id);
        run.unheard_begin = Some((1, ctx.now));
        run.silent_at = ctx.now + ctx.deadlines.silence_timeout;
        run.heard_at = Some(ctx.now);
        let mut events = Vec::new();
        if capabilities.unmetered {
            // Before its agent is known, an adapter reports only an upper bound of its capabilities.
            events.extend(self.record_metering(true));
        }
        self.configuration.record_composition(ctx.now);
        match self.status() {
            AgentSessionStatus::Queued => events.extend(self.start(api_key_hash, ctx)?),
            status if status.is_terminal() => {}
            _ => {
                self.run_state.wake();
                self.configuration.record_start();
                self.touch_control();
            }
        }
        if !self.status().is_terminal() {
            events.push(SessionEvent::RunReady { command });
        }
        // Send commands that waited for a sidecar after `begin`.
        if let Some(outstanding) = self.state.pending_command_mut()
            && outstanding.attempt == 0
        {
            outstanding.attempt = 1;
            outstanding.sent_at = ctx.now;
            let command =
                CommandRef { command_id: outstanding.command_id, run_id: command.run_id, attempt: 1 };
            if let Some(kind) = self.pending_command_kind() {
                events.push(SessionEvent::CommandReissued { kind, command });
            }
        }
        events.extend(self.report_missing(Self::NO_PLANS));
        let allowance = self.allowance_usd();
        if let Some(run) = self.run_state.current_mut() {
            // `begin` contains the allowance.
            run.sent_allowance = allowance;
        }
        events.extend(self.send_waiting_adjustments(ctx));
        Ok(events)
    }

    /// The sidecar did not become ready in time: the session fails (decision 12). If there is no capacity it waits (decision 23),
    /// and the time counts from when there is.
    pub(super) fn on_launch_timeout(
        &mut self,
        process: ProcessState,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let wanted = !self.status().is_terminal() && self.status() != AgentSessionStatus::Cancelling;
        if let Some(run) = self.run_state.current_mut().filter(|_| wanted) {
            if process == ProcessState::Waiting {
                run.unplaced_at = Some(ctx.now);
                return Ok(Vec::new());
            }
            if run.unplaced_at.take().is_some() && process == ProcessState::Alive {
                run.requested_at = ctx.now;
                return Ok(Vec::new());
            }
        }
        let mut events = if self.status().is_terminal() {
            Vec::new()
        } else {
            let message = "The sidecar did not become ready in time.".to_owned();
            if self.status() == AgentSessionStatus::Cancelling {
                self.record_stop(false);
                self.confirm_cancelled(ctx)?
            } else {
                self.fail(Operation::FailLaunch, FailureReason::InfrastructureError, Some(message), ctx)?
            }
        };
        events.extend(self.order_kill(false, ctx));
        Ok(events)
    }
}
