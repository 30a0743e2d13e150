//! Decisions of the owner. If no sidecar is running, they are sent to the agent as messages (decision 26).

use super::Conversation;
use crate::decision::OwnerDecision;
use crate::escalation::InputGuardrail;
use crate::session::{RequestAnswer, SessionError};
use crate::tick::TickReading;
use crate::value::MessageSource;
use crate::{DomainContext, Events, SessionEvent};

impl Conversation {
    /// Applies the owner's decision on a request or an output. If the agent waits for it and no sidecar is running, it is enqueued
    /// as a message (decision 26).
    pub fn resolve(
        &mut self,
        decision: OwnerDecision,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        self.resolve_guarded(decision, &[], ctx)
    }

    /// Like [`Self::resolve`], for an agent whose brief may have guardrails on its input. They judge what the owner says to the agent.
    ///
    /// # Errors
    /// Also [`SessionError::InputBlocked`]. The agent goes on waiting.
    pub fn resolve_guarded(
        &mut self,
        decision: OwnerDecision,
        guardrails: &[InputGuardrail],
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let tripped = self.session.judge_decision(&decision, guardrails)?;
        let mut events = self.session.decide(decision, ctx)?;
        events.extend(self.send_unacknowledged_answers(&events, ctx));
        events.extend(tripped);
        Ok(events)
    }

    /// Sets the deadlines of open requests by the ticks of the project, and applies the policies of those that are due (decision 77).
    /// `None`: nothing changed.
    ///
    /// # Errors
    /// The refusal, if a policy cannot be applied.
    pub fn follow_ticks(
        &mut self,
        ticks: TickReading,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Option<Events>, SessionError> {
        let Some(mut events) = self.session.follow_ticks(ticks, ctx)? else { return Ok(None) };
        events.extend(self.send_unacknowledged_answers(&events.clone(), ctx));
        Ok(Some(events))
    }

    pub(super) fn send_unacknowledged_answers(
        &mut self,
        events: &Events,
        ctx: &mut DomainContext<'_>,
    ) -> Events {
        let mut more = Vec::new();
        for event in events {
            let mut resolved = None;
            let answer = match event {
                SessionEvent::InputReceived {
                    answers, modified_input, decision_id, command: None, ..
                } => {
                    let mut changed = self.session.changed_decisions();
                    resolved = changed.find(|decision| Some(decision.id) == *decision_id).cloned();
                    RequestAnswer::received(answers, modified_input.as_ref())
                }
                SessionEvent::PlanApproved { command: None, .. } => RequestAnswer::Approved,
                SessionEvent::PlanRejected { command: None, feedback, .. } => {
                    RequestAnswer::Rejected(feedback.clone())
                }
                _ => continue,
            };
            let text = answer.as_message(resolved.as_ref());
            more.extend(self.enqueue_internal(MessageSource::User, &text, None, ctx));
        }
        more
    }
}
