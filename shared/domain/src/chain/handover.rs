//! Handing the work over to another session of the chain (decisions 30, 34).

use super::{ChainError, ChainEvent, ChainOperation, SessionChain, SessionChainStatus};
use crate::conversation::{Conversation, Restart};
use crate::session::{AgentSession, AgentSessionStatus, ChainPlace, WorkStop};
use crate::value::RecordedHandoff;
use crate::{DomainContext, Events, SessionEvent};

/// The result of a handoff; the caller commits all of it in one transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct HandedOver {
    /// The session that continues, with the messages that were waiting.
    pub continuation: Conversation,
    pub of_chain: Vec<ChainEvent>,
    pub of_predecessor: Events,
    pub of_continuation: Events,
}

/// Events of attaching a session that the owner created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    pub of_chain: Vec<ChainEvent>,
    pub of_current: Events,
    pub of_new: Events,
}

impl SessionChain {
    /// Whether `session` waits for a continuation: it is current and exhausted, and its run is over.
    pub fn waits_for_continuation(&self, session: &AgentSession) -> bool {
        self.status == SessionChainStatus::Active
            && self.current_session_id() == session.id()
            && session.status() == AgentSessionStatus::ContextExhausted
            && session.run().is_none()
            && session.work_stop() != Some(WorkStop::Killed)
    }

    /// Whether the owner may attach a session: the current one and its process must have ended, and no continuation may be pending.
    pub fn ensure_open(&self, current: &AgentSession) -> Result<(), ChainError> {
        self.check(ChainOperation::AttachSession)?;
        let status = current.status();
        let hint = match status {
            AgentSessionStatus::ContextExhausted => ": its continuation starts in a moment",
            status if status.is_terminal() => ", and its process is being stopped; try again in a moment",
            AgentSessionStatus::Idle => "; send a message to that session, or close it",
            _ => "; attach a session after that one has ended",
        };
        let over = status.is_terminal() && status != AgentSessionStatus::ContextExhausted;
        if over && current.run().is_none() {
            Ok(())
        } else {
            Err(ChainError::CurrentBusy { session: current.id(), status, hint })
        }
    }

    /// The place of the next session.
    pub fn next_place(&self) -> ChainPlace {
        ChainPlace {
            chain_id: self.id,
            position: self.next_position(),
            objective: self.original_objective.clone(),
        }
    }

    /// Hands over to a new session: records the document, creates the session with the inherited state, and moves the waiting
    /// messages. `document` is the one that the predecessor holds.
    pub fn hand_over(
        &mut self,
        from: &mut Conversation,
        document: &RecordedHandoff,
        ctx: &mut DomainContext<'_>,
    ) -> Result<HandedOver, ChainError> {
        let (before, new) = (from.session.id(), ctx.session_id());
        let mut of_chain = self.initiate_handoff(before, document)?;
        let place = self.next_place();
        let position = place.position;
        let (session, mut of_continuation) = from.session.continued(new, place, ctx);
        of_chain.extend(self.attach_session(new, ctx.now)?);

        let queue = from.queue.hand_off();
        let message_ids: Vec<_> = queue.messages().iter().map(|message| message.message_id).collect();
        of_continuation.push(SessionEvent::WorkTakenUp {
            chain_id: self.id,
            from_session_id: before,
            position,
            message_ids: message_ids.clone(),
        });
        Ok(HandedOver {
            continuation: Conversation::new(session, queue),
            of_chain,
            of_predecessor: from.session.hand_off(self.id, new, message_ids),
            of_continuation,
        })
    }

    /// Attaches a session that the owner created. It follows `current`, which must have ended, and receives the messages that still
    /// wait there.
    pub fn admit(
        &mut self,
        new: &mut Conversation,
        current: &mut Conversation,
        ctx: &DomainContext<'_>,
    ) -> Result<Admitted, ChainError> {
        self.ensure_open(&current.session)?;
        let (id, before) = (new.session.id(), current.session.id());
        let position = self.next_position();
        let of_chain = self.attach_session(id, ctx.now)?;
        new.session.join(self.id, before, position, current.session.budget().account_usd());
        new.queue = current.queue.hand_off();
        let message_ids: Vec<_> = new.queue.messages().iter().map(|message| message.message_id).collect();
        let taken_up = SessionEvent::WorkTakenUp {
            chain_id: self.id,
            from_session_id: before,
            position,
            message_ids: message_ids.clone(),
        };
        let of_current = current.session.hand_off(self.id, id, message_ids);
        Ok(Admitted { of_chain, of_current, of_new: vec![taken_up] })
    }

    /// Whether the session with which the agent of `failed` starts again belongs to this chain.
    pub fn continues_with_restart_of(&self, failed: &AgentSession) -> bool {
        self.status == SessionChainStatus::Active && self.current_session_id() == failed.id()
    }

    /// Attaches the session with which the agent of the current session starts again after a crash (decision 81).
    pub fn admit_restart(
        &mut self,
        restart: &mut Restart,
        failed: &AgentSession,
        ctx: &DomainContext<'_>,
    ) -> Result<Vec<ChainEvent>, ChainError> {
        self.ensure_open(failed)?;
        let Restart { new, of_new, .. } = restart;
        let position = self.next_position();
        let of_chain = self.attach_session(new.session.id(), ctx.now)?;
        new.session.rejoin(self.id, failed, position);
        let message_ids = new.queue.messages().iter().map(|message| message.message_id).collect();
        let from_session_id = failed.id();
        of_new.push(SessionEvent::WorkTakenUp { chain_id: self.id, from_session_id, position, message_ids });
        Ok(of_chain)
    }
}
