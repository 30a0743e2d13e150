//! The work of a session that another one continues, or none (decisions 30, 34).

use super::Conversation;
use crate::value::RecordedHandoff;
use crate::{AgentSessionId, DomainContext, Events, SessionEvent};

impl Conversation {
    /// Handles a handoff document that arrives after the continuation was created. If the continuation's agent has not started, the
    /// document replaces the inherited one. Otherwise the agent receives it as a message (decision 34).
    pub fn receive_late_document(
        &mut self,
        from: AgentSessionId,
        late: &RecordedHandoff,
        ctx: &mut DomainContext<'_>,
    ) -> Events {
        if self.session.replace_inherited(from, late) {
            return vec![SessionEvent::HandoffDocumentRecorded { handoff_document_id: Some(late.id) }];
        }
        let text = format!("A handoff document of session {from} came late.\n\n{}", late.document.to_text());
        self.enqueue_internal_parts(&text, ctx)
    }

    /// Cancels all messages, as no session continues the work.
    pub fn abandon_queue(&mut self) -> Events {
        let (gone, events) = self.queue.end();
        self.closed_messages.extend(gone);
        events
    }
}
