//! Answers and decisions of the owner. If no sidecar is running, they are sent to the agent as messages (decision 26).

use super::Conversation;
use crate::session::{Decision, SessionError};
use crate::value::{Answer, MessageSource};
use crate::{DomainContext, Events, SessionEvent, ToolCallId};

impl Conversation {
    /// Answers a question. If no sidecar is running, the answer is enqueued as a message (decision 26).
    pub fn answer(
        &mut self,
        id: &ToolCallId,
        answers: Vec<Answer>,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let mut events = self.session.answer(id, answers, ctx)?;
        events.extend(self.send_unacknowledged_answers(&events, ctx));
        Ok(events)
    }

    pub fn approve_plan(
        &mut self,
        id: &ToolCallId,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let mut events = self.session.approve_plan(id, ctx)?;
        events.extend(self.send_unacknowledged_answers(&events, ctx));
        Ok(events)
    }

    pub fn reject_plan(
        &mut self,
        id: &ToolCallId,
        feedback: crate::text::Feedback,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let mut events = self.session.reject_plan(id, feedback, ctx)?;
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
            let decision = match event {
                SessionEvent::InputReceived { answers, command: None, .. } => {
                    Decision::Answered(answers.clone())
                }
                SessionEvent::PlanApproved { command: None, .. } => Decision::Approved,
                SessionEvent::PlanRejected { command: None, feedback, .. } => {
                    Decision::Rejected(feedback.clone())
                }
                _ => continue,
            };
            more.extend(self.enqueue_internal(MessageSource::User, &decision.as_message(), None, ctx));
        }
        more
    }
}
