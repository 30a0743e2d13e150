//! Missing envelopes (decision 9): they are requested again, and given up in the end.

use super::{AgentSession, ProcessState};
use crate::{CommandRef, Deadlines, DomainContext, Events, SessionEvent};

impl AgentSession {
    /// Asks the sidecar to resend the missing envelopes.
    pub fn request_replay(&mut self, ctx: &mut DomainContext<'_>) -> Events {
        let Some(run) = self.run_state.current_mut() else { return Vec::new() };
        let Some((from_sequence, to_sequence)) = run.inbox.missing() else { return Vec::new() };
        run.inbox.asked(ctx.now + ctx.deadlines.replay_interval);
        let command = CommandRef { command_id: ctx.command_id(), run_id: run.id, attempt: 1 };
        vec![SessionEvent::ReplayRequested { command, from_sequence, to_sequence }]
    }

    /// Gives up missing envelopes (decision 9). The caller applies the parked envelopes after them.
    pub fn close_gap(&mut self) -> Events {
        let Some(run) = self.run_state.current_mut() else { return Vec::new() };
        let Some((from_sequence, to_sequence)) = run.inbox.skip_missing() else { return Vec::new() };
        vec![SessionEvent::EventsLost { from_sequence, to_sequence }]
    }

    /// Requests missing envelopes again, or gives them up (decision 9). In that case the caller applies the parked envelopes.
    pub(super) fn on_replay_deadline(
        &mut self,
        process: ProcessState,
        ctx: &mut DomainContext<'_>,
    ) -> Events {
        let Some(run) = self.run_state.current_mut() else { return Vec::new() };
        if process == ProcessState::Dead {
            // The sidecar cannot answer any more. The rest of its spool arrives before the report of its end, which closes the gap.
            run.inbox.postpone(ctx.now + ctx.deadlines.replay_interval);
            return Vec::new();
        }
        if run.inbox.gap().is_some_and(|gap| gap.requests < Deadlines::REPLAY_REQUESTS) {
            self.request_replay(ctx)
        } else {
            self.close_gap()
        }
    }
}
