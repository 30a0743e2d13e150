//! Sleeping when nothing happens (rulings 22, 23): the sidecar of a session that rests or waits is stopped after its idle
//! time, its slot is freed, and the status is kept. The next message, answer or resume wakes it.

use std::time::Duration;

use super::{AgentSession, AgentSessionStatus, Operation, SessionError};
use crate::{Deadlines, DomainEvent, Events, Occasion, Timestamp};

impl AgentSession {
    /// Seconds that nothing may be heard of it in its status; none: it does not hibernate.
    fn idle_seconds(&self) -> Option<u64> {
        let seconds = match self.status() {
            AgentSessionStatus::Paused => self.settings.paused_timeout_seconds,
            status if status.survives_its_process() => self.settings.idle_timeout_seconds,
            _ => 0,
        };
        (seconds > 0).then_some(seconds)
    }

    /// When it hibernates, if nothing is heard of it until then. Not where its folders would be lost, and not where the
    /// agent could not take its conversation up again.
    pub(crate) fn hibernation_due(&self, limits: &Deadlines) -> Option<Timestamp> {
        let resumes = self.capabilities().is_some_and(|can| can.resume_conversation);
        let asked = !self.unheard_answers.is_empty() || self.reload.is_some() || self.cancel_accepted;
        let asked = asked || self.is_adjusting();
        let busy = asked || !self.in_flight.is_empty();
        if !limits.durable_workspace || !self.is_live() || !resumes || busy {
            return None;
        }
        Some(self.updated_at + Duration::from_secs(self.idle_seconds()?))
    }

    /// Its sidecar is stopped, and the status kept. Refused while a turn is about to begin (ruling 29).
    pub fn hibernate(&mut self, cx: &mut Occasion<'_>) -> Result<Events, SessionError> {
        self.check(Operation::Hibernate)?;
        self.ensure_no_turn_starting()?;
        let stop = self.order_stop(cx);
        if stop.is_empty() {
            return Ok(stop);
        }
        let mut events =
            vec![DomainEvent::HibernationOrdered { idle_seconds: self.idle_seconds().unwrap_or(0) }];
        events.extend(stop);
        Ok(events)
    }
}
