//! Answers of the sidecar to commands: received, done, refused (S3; decisions 11, 12).

use super::{
    AgentSession, AgentSessionStatus, CheckpointCause, LifecycleCommand, Operation, SessionError, State,
};
use crate::{CommandId, DomainContext, Events, SessionEvent};

impl AgentSession {
    /// Handles the acknowledgement of a command. Only the pending command of the current run confirms (decision 11).
    pub(crate) fn command_done(
        &mut self,
        kind: LifecycleCommand,
        command: CommandId,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        use AgentSessionStatus as S;
        match (kind, self.status()) {
            // The acknowledgements of these commands, and of a stop after a terminal status, confirm nothing.
            (LifecycleCommand::Begin | LifecycleCommand::Answer | LifecycleCommand::Validate, _) => {
                return Ok(Vec::new());
            }
            (LifecycleCommand::Reload, _) => return self.reload_done(command),
            (LifecycleCommand::Adjust, _) => return self.adjustment_done(command),
            (LifecycleCommand::Stop, status) if status.is_terminal() => return Ok(Vec::new()),
            // The stop of a run that had ended confirms nothing: the session rests and needs no process.
            (LifecycleCommand::Stop, status) if status.survives_its_process() && !self.is_live() => {
                return Ok(Vec::new());
            }
            _ => {}
        }
        if self.pending_command().is_none_or(|pending| pending.command_id != command) {
            return Err(SessionError::StaleAck);
        }
        match (kind, self.status()) {
            (LifecycleCommand::Interrupt, S::Interrupting) => {
                let turn_over = self.delivery.is_turn_end_deferred();
                let mut events = self.confirm_interrupted(turn_over)?;
                events.extend(self.apply_turn_end_of_interrupt(ctx));
                Ok(events)
            }
            (LifecycleCommand::Pause, S::Pausing) => {
                let pending = self.open_decision_ids();
                self.make_checkpoint(CheckpointCause::Pause, pending, ctx.now);
                self.confirm_paused()
            }
            (LifecycleCommand::Resume, S::Resuming) => self.confirm_resumed(ctx),
            (LifecycleCommand::Stop, S::Cancelling) => {
                self.checkpoint_stop(ctx);
                self.record_stop(true);
                self.confirm_cancelled(ctx)
            }
            _ => Err(SessionError::StaleAck),
        }
    }

    /// Records that the sidecar stored a command in its spool.
    pub(crate) fn command_received(&mut self, command: CommandId, ctx: &DomainContext<'_>) {
        if let Some(outstanding) = self.state.pending_command_mut()
            && outstanding.command_id == command
        {
            outstanding.received_at.get_or_insert(ctx.now);
        }
        self.configuration.record_received(command, ctx.now);
        self.adjustments.record_received(command, ctx.now);
        if let Some(run) = self.run_state.current_mut().filter(|run| run.begin == Some(command)) {
            run.unheard_begin = None;
        }
        self.delivery.record_received(command);
        self.acknowledge_answer(command);
        self.validation_received(command, ctx);
    }

    /// Handles a refused command: the session returns to its previous status. A refused stop is enforced.
    pub(crate) fn request_refused(
        &mut self,
        command: CommandId,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        if self.reload_refused(command)
            || self.pending_command().is_none_or(|pending| pending.command_id != command)
        {
            return Ok(Vec::new());
        }
        match self.status() {
            // The turn or the agent had ended before it was suspended: only that end is left to apply.
            AgentSessionStatus::Resuming if self.delivery.is_turn_end_deferred() => self.confirm_resumed(ctx),
            AgentSessionStatus::Resuming => {
                self.transition(Operation::AbandonResume, State::Paused)?;
                Ok(vec![SessionEvent::ResumeAbandoned {}])
            }
            // An agent that refuses to stop is killed by the runtime, which completes the request (decision 12).
            _ => Ok(self.enforce_stop(ctx)),
        }
    }
}
