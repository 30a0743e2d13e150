//! The `SessionMessageQueue` aggregate (S0 8.4, rulings 28 to 30): what waits to be said to an agent.
//!
//! The aggregate holds what is open. A message that is delivered or cancelled leaves it and stays as a record of its
//! own, which also makes sending idempotent by `messageId`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::MessageContent;
use crate::value::{MessagePriority, MessageSource, MessageStatus};
use crate::{DomainEvent, Events, MessageId, Timestamp, TurnId};

/// A message of the queue (S0 8.4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionMessage {
    /// Its id, chosen by its sender or given.
    pub message_id: MessageId,
    /// What it says.
    pub content: MessageContent,
    /// How urgent it is.
    pub priority: MessagePriority,
    /// Where it stands.
    pub status: MessageStatus,
    /// Who says it.
    pub source: MessageSource,
    /// The turn that it is meant for (ruling 30).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_turn_id: Option<TurnId>,
    /// Whether it was sent and not yet acknowledged.
    #[serde(default)]
    pub sent: bool,
    /// Whether nobody knows if the agent got it (ruling 30). It is not sent again by itself.
    #[serde(default)]
    pub delivery_uncertain: bool,
    /// When it was enqueued.
    pub created_at: Timestamp,
    /// When the agent had it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_at: Option<Timestamp>,
}

/// A refusal. The queue is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// There is no such message.
    #[error("there is no message {0} in the queue of this session")]
    NotFound(MessageId),
    /// It was sent.
    #[error("the message was already sent to the agent")]
    AlreadySent,
    /// Its id was used for another message (ruling 28).
    #[error("a message with this id and other words is in the queue already")]
    IdempotencyMismatch,
    /// It is immediate already.
    #[error("the message is immediate already")]
    AlreadyImmediate,
    /// Too much waits.
    #[error("the queue is full: it holds at most {max_messages} messages and {max_kib} KiB of text")]
    Full {
        /// Messages that it holds.
        max_messages: usize,
        /// Text that it holds.
        max_kib: usize,
    },
}

impl QueueError {
    /// The stable code (ruling 5).
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "not-found",
            Self::AlreadySent => "already-sent",
            Self::IdempotencyMismatch => "idempotency-mismatch",
            Self::AlreadyImmediate => "already-immediate",
            Self::Full { .. } => "queue-full",
        }
    }
}

/// The open messages of one session, in delivery order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionMessageQueue {
    /// Immediate ones first; within a priority in the order that their owner gave them (ruling 28).
    messages: Vec<SessionMessage>,
    /// Whether messages wait for their owner after an interrupt (ruling 29).
    held: bool,
}

/// Bytes that a text takes as JSON, where some characters are escaped.
fn weight(content: &MessageContent) -> usize {
    let escaped = |c: char| match c {
        '"' | '\\' | '\n' | '\r' | '\t' => 2,
        c if c < ' ' => 6,
        c => c.len_utf8(),
    };
    content.as_str().chars().map(escaped).sum()
}

impl SessionMessageQueue {
    /// The most open messages.
    pub const MAX_MESSAGES: usize = 100;
    /// The most text of open messages, in bytes of JSON: the aggregate is one item.
    pub const MAX_BYTES: usize = 160 * 1024;
    const FULL: QueueError =
        QueueError::Full { max_messages: Self::MAX_MESSAGES, max_kib: Self::MAX_BYTES / 1024 };

    /// The open messages in delivery order.
    pub fn messages(&self) -> &[SessionMessage] {
        &self.messages
    }

    /// Whether messages wait for their owner after an interrupt.
    pub const fn is_held(&self) -> bool {
        self.held
    }

    /// One open message.
    pub fn get(&self, id: MessageId) -> Option<&SessionMessage> {
        self.messages.iter().find(|m| m.message_id == id)
    }

    fn get_mut(&mut self, id: MessageId) -> Result<&mut SessionMessage, QueueError> {
        self.messages.iter_mut().find(|m| m.message_id == id).ok_or(QueueError::NotFound(id))
    }

    fn pending_mut(&mut self, id: MessageId) -> Result<&mut SessionMessage, QueueError> {
        let message = self.get_mut(id)?;
        if message.sent { Err(QueueError::AlreadySent) } else { Ok(message) }
    }

    /// The end of the part of the line that has this priority or a more urgent one.
    fn end_of(&self, priority: MessagePriority) -> usize {
        self.messages.iter().position(|m| m.priority > priority).unwrap_or(self.messages.len())
    }

    /// `Enqueue(…)`: adds a message at the end of its priority. Its owner's word lifts a hold (ruling 29). The same
    /// message again changes nothing (ruling 28).
    pub fn enqueue(&mut self, message: SessionMessage) -> Result<Events, QueueError> {
        if let Some(known) = self.get(message.message_id) {
            let same = known.content == message.content && known.expected_turn_id == message.expected_turn_id;
            return if same { Ok(Vec::new()) } else { Err(QueueError::IdempotencyMismatch) };
        }
        let bytes: usize = self.messages.iter().map(|m| weight(&m.content)).sum();
        if self.messages.len() >= Self::MAX_MESSAGES || bytes + weight(&message.content) > Self::MAX_BYTES {
            return Err(Self::FULL);
        }
        Ok(self.take(message))
    }

    /// Takes a message, however full the queue is: what Pilothouse itself has to say is little, and nobody waits for a
    /// refusal.
    pub(crate) fn take(&mut self, message: SessionMessage) -> Events {
        let mut events = vec![DomainEvent::MessageEnqueued {
            message_id: message.message_id,
            priority: message.priority,
            source: message.source,
            content: message.content.clone(),
        }];
        if message.source == MessageSource::User {
            events.extend(self.lift_hold());
        }
        let at = self.end_of(message.priority);
        self.messages.insert(at, message);
        events
    }

    /// Changes the text of a pending message.
    pub fn edit(&mut self, id: MessageId, content: MessageContent) -> Result<Events, QueueError> {
        self.pending_mut(id)?;
        let others = self.messages.iter().filter(|m| m.message_id != id);
        if others.map(|m| weight(&m.content)).sum::<usize>() + weight(&content) > Self::MAX_BYTES {
            return Err(Self::FULL);
        }
        self.get_mut(id)?.content = content.clone();
        Ok(vec![DomainEvent::MessageEdited { message_id: id, content }])
    }

    /// Moves a pending message to `position` (from 0) among the messages of its priority.
    pub fn move_to(&mut self, id: MessageId, position: usize) -> Result<Events, QueueError> {
        let priority = self.pending_mut(id)?.priority;
        let from = self.messages.iter().position(|m| m.message_id == id).ok_or(QueueError::NotFound(id))?;
        let message = self.messages.remove(from);
        let start = self.messages.iter().position(|m| m.priority >= priority).unwrap_or(self.messages.len());
        let end = self.end_of(priority);
        self.messages.insert((start + position).min(end), message);
        Ok(vec![DomainEvent::MessageMoved { message_id: id }])
    }

    /// `Cancel(messageId)`.
    pub fn cancel(&mut self, id: MessageId) -> Result<(SessionMessage, Events), QueueError> {
        self.pending_mut(id)?;
        self.drop_message(id, None).ok_or(QueueError::NotFound(id))
    }

    /// Takes a message out as cancelled, sent or not.
    pub(crate) fn drop_message(
        &mut self,
        id: MessageId,
        reason: Option<&str>,
    ) -> Option<(SessionMessage, Events)> {
        let at = self.messages.iter().position(|m| m.message_id == id)?;
        let mut message = self.messages.remove(at);
        message.status = MessageStatus::Cancelled;
        let event = DomainEvent::MessageCancelled { message_id: id, reason: reason.map(str::to_owned) };
        Some((message, vec![event]))
    }

    /// `Promote(messageId)`: a queued message becomes immediate, last among those. Lifts a hold (ruling 29).
    pub fn promote(&mut self, id: MessageId) -> Result<Events, QueueError> {
        let message = self.pending_mut(id)?;
        if message.priority == MessagePriority::Immediate {
            return Err(QueueError::AlreadyImmediate);
        }
        message.priority = MessagePriority::Immediate;
        let at = self.messages.iter().position(|m| m.message_id == id).ok_or(QueueError::NotFound(id))?;
        let message = self.messages.remove(at);
        let end = self.end_of(MessagePriority::Immediate);
        self.messages.insert(end, message);
        let mut events = vec![DomainEvent::MessagePromoted { message_id: id }];
        events.extend(self.lift_hold());
        Ok(events)
    }

    /// Releases one message: a hold is lifted, and a message of uncertain delivery may be sent again (rulings 29, 30).
    pub fn release(&mut self, id: MessageId) -> Result<Events, QueueError> {
        let message = self.get_mut(id)?;
        if message.sent && !message.delivery_uncertain {
            return Err(QueueError::AlreadySent);
        }
        message.sent = false;
        message.delivery_uncertain = false;
        self.held = false;
        Ok(vec![DomainEvent::MessagesReleased {}])
    }

    /// Cancels everything that was not sent.
    pub fn clear(&mut self) -> (Vec<SessionMessage>, Events) {
        let ids: Vec<_> = self.messages.iter().filter(|m| !m.sent).map(|m| m.message_id).collect();
        self.drop_all(&ids, None)
    }

    /// Cancels everything, sent or not, as the session has ended (ruling 30).
    pub(crate) fn end(&mut self) -> (Vec<SessionMessage>, Events) {
        let ids: Vec<_> = self.messages.iter().map(|m| m.message_id).collect();
        self.drop_all(&ids, Some("session-ended"))
    }

    fn drop_all(&mut self, ids: &[MessageId], reason: Option<&str>) -> (Vec<SessionMessage>, Events) {
        let mut gone = Vec::new();
        let mut events = Vec::new();
        for id in ids {
            if let Some((message, event)) = self.drop_message(*id, reason) {
                gone.push(message);
                events.extend(event);
            }
        }
        self.held = false;
        (gone, events)
    }

    /// `GetNextPending()`: the next message to deliver; none while messages are held.
    pub fn next_pending(&self) -> Option<&SessionMessage> {
        if self.held { None } else { self.messages.iter().find(|m| !m.sent && !m.delivery_uncertain) }
    }

    /// The next immediate one.
    pub(crate) fn next_immediate(&self) -> Option<&SessionMessage> {
        self.next_pending().filter(|m| m.priority == MessagePriority::Immediate)
    }

    /// An interrupt holds what is open, sent or not, until its owner acts (ruling 29): what comes back unsent waits too.
    pub(crate) fn hold_at_interrupt(&mut self) -> Events {
        if self.held || self.messages.is_empty() {
            return Vec::new();
        }
        self.held = true;
        vec![DomainEvent::MessagesHeld {}]
    }

    /// Pending messages for a turn that is not `current` (ruling 30).
    pub(crate) fn too_late_for(&self, current: Option<&TurnId>) -> Option<MessageId> {
        let too_late = |m: &&SessionMessage| {
            !m.sent && m.expected_turn_id.is_some() && m.expected_turn_id.as_ref() != current
        };
        self.messages.iter().find(too_late).map(|m| m.message_id)
    }

    /// What waits is held until its owner acts, if there is anything (ruling 29).
    pub(crate) fn hold(&mut self) -> Events {
        if self.held || !self.messages.iter().any(|m| !m.sent && !m.delivery_uncertain) {
            return Vec::new();
        }
        self.held = true;
        vec![DomainEvent::MessagesHeld {}]
    }

    fn lift_hold(&mut self) -> Events {
        if std::mem::take(&mut self.held) { vec![DomainEvent::MessagesReleased {}] } else { Vec::new() }
    }

    pub(crate) fn mark_sent(&mut self, id: MessageId) {
        if let Ok(message) = self.get_mut(id) {
            message.sent = true;
        }
    }

    /// `MarkDelivered(messageId)`: the message leaves the queue. Nothing when it is not there any more.
    pub(crate) fn mark_delivered(
        &mut self,
        id: MessageId,
        now: Timestamp,
    ) -> Option<(SessionMessage, Events)> {
        let at = self.messages.iter().position(|m| m.message_id == id)?;
        let mut message = self.messages.remove(at);
        message.status = MessageStatus::Delivered;
        message.delivered_at = Some(now);
        message.delivery_uncertain = false;
        let event = DomainEvent::MessageDelivered {
            message_id: id,
            source: message.source,
            content: message.content.clone(),
            delivered_at: now,
        };
        Some((message, vec![event]))
    }

    /// A sent message was not taken: it waits again.
    pub(crate) fn put_back(&mut self, id: MessageId, reason: &str) -> Events {
        match self.get_mut(id) {
            Ok(message) if message.sent => {
                message.sent = false;
                vec![DomainEvent::MessageReturned { message_id: id, reason: reason.to_owned() }]
            }
            _ => Vec::new(),
        }
    }

    /// Nobody knows whether the agent got it.
    pub(crate) fn mark_uncertain(&mut self, id: MessageId) -> Events {
        match self.get_mut(id) {
            Ok(message) => {
                message.delivery_uncertain = true;
                message.sent = false;
                vec![DomainEvent::MessageUncertain { message_id: id }]
            }
            Err(_) => Vec::new(),
        }
    }
}
