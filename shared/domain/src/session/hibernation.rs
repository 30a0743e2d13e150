//! Hibernation (decisions 22, 23): the sidecar of an inactive session that rests or waits is stopped. Its slot is freed and its
//! status kept. The next message, answer or resume starts a new run.

use std::time::Duration;

use super::{AgentSession, AgentSessionStatus, Operation, SessionError};
use crate::{Deadlines, DomainContext, Events, SessionEvent, Timestamp};

impl AgentSession {
    /// Idle timeout in the current status; `None` if the session does not hibernate in it.
    fn idle_seconds(&self) -> Option<u64> {
        let seconds = match self.status() {
            AgentSessionStatus::Paused => self.definition.settings.paused_timeout_seconds,
            status if status.survives_its_process() => self.definition.settings.idle_timeout_seconds,
            _ => 0,
        };
        (seconds > 0).then_some(seconds)
    }

    /// When the session hibernates if it stays inactive. `None` if its folders would be lost or its agent could not continue the
    /// conversation.
    pub(crate) fn hibernation_deadline(&self, limits: &Deadlines) -> Option<Timestamp> {
        let resumes = self.capabilities().is_some_and(|can| can.resume_conversation);
        let asked =
            self.requests.has_unacknowledged_answers() || self.reload().is_some() || self.cancel_accepted;
        let asked = asked || self.is_adjusting();
        let busy = asked || !self.delivery.in_flight().is_empty();
        if !limits.durable_workspace || !self.is_live() || !resumes || busy {
            return None;
        }
        Some(self.run_state.counted_from(self.updated_at) + Duration::from_secs(self.idle_seconds()?))
    }

    /// Stops the sidecar and keeps the status. Refused while a turn is about to start (decision 29).
    pub fn hibernate(&mut self, ctx: &mut DomainContext<'_>) -> Result<Events, SessionError> {
        self.check(Operation::Hibernate)?;
        self.ensure_no_turn_starting()?;
        let stop = self.order_stop(ctx);
        if stop.is_empty() {
            return Ok(stop);
        }
        let mut events =
            vec![SessionEvent::HibernationOrdered { idle_seconds: self.idle_seconds().unwrap_or(0) }];
        events.extend(stop);
        Ok(events)
    }
}
