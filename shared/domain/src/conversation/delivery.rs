//! Delivering messages to the agent (decisions 28 to 30).

use super::Conversation;
use crate::escalation::{InputGuardrail, TripSubject};
use crate::queue::{QueueError, SessionMessage};
use crate::session::AgentSessionStatus as S;
use crate::session::{AgentSession, InFlight, InFlightStep, Operation, SessionError, judge_input};
use crate::text::{MessageContent, cut};
use crate::value::{MessageImage, MessagePriority, MessageSource, MessageStatus};
use crate::{CommandRef, DomainContext, Events, MessageId, SessionEvent, Timestamp, TurnId};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    pub message_id: MessageId,
    pub content: MessageContent,
    pub images: Vec<MessageImage>,
    pub priority: MessagePriority,
    pub source: MessageSource,
    /// The turn that the message is meant for; it is rejected if that turn is over.
    pub expected_turn_id: Option<TurnId>,
}

impl NewMessage {
    fn pending(self, created_at: Timestamp) -> SessionMessage {
        SessionMessage {
            message_id: self.message_id,
            content: self.content,
            images: self.images,
            priority: self.priority,
            status: MessageStatus::Pending,
            source: self.source,
            expected_turn_id: self.expected_turn_id,
            sent: false,
            delivery_uncertain: false,
            created_at,
            delivered_at: None,
        }
    }
}

/// Why a message was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnqueueError {
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The turn that the message was meant for is over (decision 30).
    #[error("the turn that the message was meant for is over; nothing was sent")]
    TurnOver,
}

impl Conversation {
    /// Most messages that may be sent and unacknowledged at the same time.
    const MAX_IN_FLIGHT: usize = 16;

    /// Adds a message to the queue (S0 8.7 `Enqueue`). The session's status is checked in the same change (decision 28).
    pub fn enqueue(&mut self, new: NewMessage, ctx: &DomainContext<'_>) -> Result<Events, EnqueueError> {
        self.enqueue_guarded(new, &[], ctx)
    }

    /// Like [`Self::enqueue`], for an agent whose brief has guardrails on its input.
    pub fn enqueue_guarded(
        &mut self,
        new: NewMessage,
        guardrails: &[InputGuardrail],
        ctx: &DomainContext<'_>,
    ) -> Result<Events, EnqueueError> {
        let mut tripped = Events::new();
        // The queue itself compares a message that it already has (decision 28).
        if self.queue.get(new.message_id).is_none() {
            self.session.check(Operation::AcceptMessage)?;
            if let Some(expected) = &new.expected_turn_id
                && self.session.turn().is_none_or(|turn| turn.id != *expected)
            {
                return Err(EnqueueError::TurnOver);
            }
            if new.expected_turn_id.is_some() && !self.session.takes_messages_now() {
                let what = "take a message within its turn; send it without `expectedTurnId`, and it becomes the first after the turn";
                return Err(SessionError::NotCapable { what }.into());
            }
            tripped = judge_input(guardrails, TripSubject::Message, new.content.as_str())
                .map_err(SessionError::from)?;
        }
        let immediate = new.priority == MessagePriority::Immediate;
        let mut events = self.queue.enqueue(new.pending(ctx.now))?;
        if immediate && !events.is_empty() {
            events.extend(self.session.report_missing(AgentSession::NO_STEERING));
        }
        events.extend(tripped);
        Ok(events)
    }

    /// Replaces the text of a pending message, for an agent whose brief may have guardrails on its input.
    pub fn edit_message(
        &mut self,
        id: MessageId,
        content: MessageContent,
        guardrails: &[InputGuardrail],
    ) -> Result<Events, EnqueueError> {
        self.queue.ensure_pending(id)?;
        let tripped = judge_input(guardrails, TripSubject::Message, content.as_str());
        let tripped = tripped.map_err(SessionError::from)?;
        let mut events = self.queue.edit(id, content)?;
        events.extend(tripped);
        Ok(events)
    }

    pub fn cancel_message(&mut self, id: MessageId) -> Result<Events, QueueError> {
        let (message, events) = self.queue.cancel(id)?;
        self.closed_messages.push(message);
        Ok(events)
    }

    pub fn clear_queue(&mut self) -> Events {
        let (gone, events) = self.queue.clear();
        self.closed_messages.extend(gone);
        events
    }

    /// Enqueues a message that Pilothouse itself sends. A session that accepts no messages ignores it.
    pub(super) fn enqueue_internal(
        &mut self,
        source: MessageSource,
        text: &str,
        expected_turn_id: Option<TurnId>,
        ctx: &mut DomainContext<'_>,
    ) -> Events {
        let Ok(content) = MessageContent::parse(cut(text, MessageContent::MAX)) else { return Vec::new() };
        let message_id = ctx.message_id();
        let new = NewMessage {
            message_id,
            content,
            images: Vec::new(),
            priority: MessagePriority::Immediate,
            source,
            expected_turn_id,
        };
        // The queue of an exhausted session moves to its continuation.
        let handed_on = self.session.status() == S::ContextExhausted && self.session.continuation().is_none();
        if !handed_on && self.session.check(Operation::AcceptMessage).is_err() {
            return Vec::new();
        }
        self.queue.take(new.pending(ctx.now))
    }

    pub(crate) fn enqueue_internal_parts(&mut self, text: &str, ctx: &mut DomainContext<'_>) -> Events {
        let letters: Vec<char> = text.chars().collect();
        let parts = letters.chunks(MessageContent::MAX).map(|part| part.iter().collect::<String>());
        parts.flat_map(|part| self.enqueue_internal(MessageSource::System, &part, None, ctx)).collect()
    }

    /// Sends the next message that may be sent now (decision 29).
    pub(super) fn dispatch(&mut self, ctx: &mut DomainContext<'_>) -> Events {
        let session = &self.session;
        if !session.is_live()
            || session.unreachable_since().is_some()
            || session.is_held()
            || session.budget().blocked()
            || session.in_flight().len() >= Self::MAX_IN_FLIGHT
        {
            return Vec::new();
        }
        let next = match session.status() {
            // A message for an agent without steering stays in the queue, where the owner can still change it.
            S::Running if session.takes_messages_now() => self.queue.next_immediate(),
            // One message at a time: its turn has to start before the next message is sent.
            // A reload comes first, so that a turn starts with a complete configuration.
            S::Idle | S::Interrupted if session.in_flight().is_empty() && session.reload().is_none() => {
                self.queue.next_pending()
            }
            _ => None,
        };
        let (Some(message), Some(run)) = (next, session.run()) else { return Vec::new() };
        let message_id = message.message_id;
        let command = CommandRef { command_id: ctx.command_id(), run_id: run.id, attempt: 1 };
        self.queue.mark_sent(message_id);
        self.attach_injection(message_id);
        self.session.sent(InFlight {
            message_id,
            run_id: command.run_id,
            command_id: command.command_id,
            step: InFlightStep::Sent,
            attempt: 1,
            sent_at: ctx.now,
            received: false,
        });
        vec![SessionEvent::MessageDispatched { message_id, command }]
    }

    /// Marks a message as injected. Its turn may not have started yet.
    pub(super) fn injected(&mut self, id: MessageId, ctx: &DomainContext<'_>) -> Events {
        self.session.message_injected(id);
        self.delivered(id, ctx)
    }

    pub(super) fn delivered(&mut self, id: MessageId, ctx: &DomainContext<'_>) -> Events {
        match self.queue.mark_delivered(id, ctx.now) {
            Some((message, mut events)) => {
                self.closed_messages.push(message);
                if let Some(attached) = self.queue.attached_to(id) {
                    events.extend(self.delivered(attached, ctx));
                }
                events
            }
            None => Vec::new(),
        }
    }

    pub(super) fn drop_message(&mut self, id: MessageId, reason: &str) -> Events {
        let Some((gone, mut events)) = self.queue.drop_message(id, Some(reason)) else { return Vec::new() };
        self.closed_messages.push(gone);
        if let Some(attached) = self.queue.attached_to(id) {
            events.extend(self.return_injection(attached, reason));
        }
        events
    }
}
