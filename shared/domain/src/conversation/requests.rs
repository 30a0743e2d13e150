//! Decisions of the owner. If no sidecar is running, they are sent to the agent as messages (decision 26).

use super::Conversation;
use crate::decision::OwnerDecision;
use crate::session::{RequestAnswer, SessionError};
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
        let mut events = self.session.decide(decision, ctx)?;
        events.extend(self.send_unacknowledged_answers(&events, ctx));
        Ok(events)
    }

    pub(super) fn send_unacknowledged_answers(
        &mut self,
        events: &Events,
        ctx: &mut DomainContext<'_>,
    ) -> Events {
        let mut more = Vec::new();
        for event in events {
            let answer = match event {
                SessionEvent::InputReceived { answers, modified_input, command: None, .. } => {
                    RequestAnswer::received(answers, modified_input.as_ref())
                }
                SessionEvent::PlanApproved { command: None, .. } => RequestAnswer::Approved,
                SessionEvent::PlanRejected { command: None, feedback, .. } => {
                    RequestAnswer::Rejected(feedback.clone())
                }
                _ => continue,
            };
            more.extend(self.enqueue_internal(MessageSource::User, &answer.as_message(), None, ctx));
        }
        more
    }
}
