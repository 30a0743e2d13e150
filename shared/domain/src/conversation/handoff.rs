//! The work of a session that another one continues, or none (decisions 30, 34).

use super::Conversation;
use crate::escalation::{InputGuardrail, TripSubject};
use crate::session::{AgentSessionStatus, Grace, SessionError, WorkStop, judge_input};
use crate::value::RecordedHandoff;
use crate::{AgentSessionId, DomainContext, Events, SessionChainId, SessionEvent};

/// The result of a restart; the caller commits all of it in one transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct Restart {
    pub new: Conversation,
    pub of_new: Events,
    pub of_failed: Events,
}

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

    /// Starts the agent of a project again in a new session, which receives the objective and the messages that wait (decision 81).
    ///
    /// # Errors
    /// The session did not fail, continues elsewhere, or has used up its budget; [`SessionError::ProcessStopping`] until its run has
    /// ended; [`SessionError::InputBlocked`] if a guardrail of the current brief refuses the objective.
    pub fn restart(
        &mut self,
        guardrails: &[InputGuardrail],
        ctx: &mut DomainContext<'_>,
    ) -> Result<Restart, SessionError> {
        self.session.check_restart()?;
        let tripped = judge_input(guardrails, TripSubject::Objective, self.session.objective().as_str())?;
        let id = ctx.session_id();
        let (session, mut of_new) = self.session.restart(id, ctx)?;
        of_new.extend(tripped);
        let queue = self.queue.hand_off();
        let message_ids = queue.messages().iter().map(|message| message.message_id).collect();
        let of_failed = vec![SessionEvent::Restarted { continuation: id, message_ids }];
        Ok(Restart { new: Self::new(session, queue), of_new, of_failed })
    }

    /// Records that no session continues the work, because the chain ended, and cancels all messages.
    pub fn abandon_work(&mut self, chain_id: SessionChainId) -> Events {
        self.end_work(chain_id, WorkStop::ChainEnded)
    }

    /// Ends an agent of a project (S2 `KillRequest`). Nothing continues the work of a session whose context is full, and its agent
    /// writes no document any more.
    ///
    /// # Errors
    /// The session is over, or another one has continued its work.
    pub fn kill(&mut self, grace: Grace, ctx: &mut DomainContext<'_>) -> Result<Events, SessionError> {
        let waits = self.session.status() == AgentSessionStatus::ContextExhausted
            && self.session.continuation().is_none()
            && matches!(self.session.work_stop(), None | Some(WorkStop::ChainFull));
        let Some(chain_id) = self.session.chain_id().filter(|_| waits) else {
            return self.session.kill(grace, ctx);
        };
        let mut events = self.end_work(chain_id, WorkStop::Killed);
        self.session.stop_awaiting_document();
        if grace == Grace::None {
            events.extend(self.session.force_stop(ctx));
        }
        Ok(events)
    }

    fn end_work(&mut self, chain_id: SessionChainId, why: WorkStop) -> Events {
        let mut events = self.session.stop_work(chain_id, why);
        let (gone, cancelled) = self.queue.end();
        self.closed_messages.extend(gone);
        events.extend(cancelled);
        events
    }
}
