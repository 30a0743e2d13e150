//! The end of a run: what becomes of its messages and subagents (decision 30).

use super::Conversation;
use crate::session::AgentSessionStatus as S;
use crate::session::{InFlightStep, Observation, RunEnd, SessionError};
use crate::value::{FailureReason, MessageSource};
use crate::{DomainContext, Events, RunId, SessionEvent};

impl Conversation {
    /// Ends a run whose process is gone. If all envelopes of the sidecar were received (`drained`), messages that were sent but not
    /// injected return to the queue. A message that may have reached the agent becomes uncertain (decision 30).
    pub fn run_ended(
        &mut self,
        run: RunId,
        drained: bool,
        detail: Option<String>,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let end = if drained { RunEnd::Drained } else { RunEnd::Undrained };
        let mut events = self.session.record_run_ended(run, end, detail, ctx)?;
        if events.is_empty() {
            return Ok(events);
        }
        events.extend(self.leave_run(run, drained, ctx)?);
        Ok(events)
    }

    /// Ends a run whose machine the owner declared lost, although the end of its process was not observed (decision 13).
    pub fn run_lost(
        &mut self,
        run: RunId,
        detail: Option<String>,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let mut events = self.session.record_run_ended(run, RunEnd::Lost, detail, ctx)?;
        if !events.is_empty() {
            events.extend(self.leave_run(run, false, ctx)?);
        }
        Ok(events)
    }

    /// Updates messages and subagents when their run is over.
    fn leave_run(
        &mut self,
        run: RunId,
        drained: bool,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let mut events = Vec::new();
        for sent in self.session.take_in_flight(run) {
            events.extend(match (sent.step, drained) {
                (InFlightStep::Sent, true) => self.return_message(sent.message_id, "run-ended"),
                (InFlightStep::Injected, _) => Vec::new(),
                (InFlightStep::Injecting, _) | (InFlightStep::Sent, false) => {
                    self.mark_uncertain(sent.message_id)
                }
            });
        }
        for answer in self.session.take_unacknowledged_answers() {
            events.push(SessionEvent::AnswerReturned { request_id: answer.request_id });
            events.extend(self.enqueue_internal(MessageSource::User, &answer.text, None, ctx));
        }
        for subagent in self.subagents.values_mut() {
            if subagent.end(true, ctx.now) {
                events.push(SessionEvent::SubAgentFailed {
                    sub_agent_id: subagent.id.clone(),
                    failure_reason: FailureReason::InfrastructureError,
                });
            }
        }
        let rests = matches!(self.session.status(), S::Idle | S::Interrupted) && !self.session.is_held();
        // A cancellation that waits is carried out in this commit; a failure would undo it.
        let rests = rests && !self.session.cancel_accepted();
        if rests && self.queue.next_pending().is_some() {
            events.extend(self.session.run_was_fruitless("the agent received the waiting message", ctx)?);
        }
        Ok(events)
    }

    /// Processes expired deadlines ([`AgentSession::on_deadline`]).
    pub fn on_deadline(
        &mut self,
        observed: &Observation,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let run = self.session.run().map(|run| run.id);
        let mut events = self.session.on_deadline(observed, ctx)?;
        if let Some(run) = run
            && self.session.run().is_none()
        {
            // The run was ended without a report of its runtime, so a sent message may have arrived.
            events.extend(self.leave_run(run, false, ctx)?);
        }
        events.extend(self.send_unacknowledged_answers(&events.clone(), ctx));
        Ok(events)
    }
}
