//! The `SessionMessageQueue` aggregate (S0 8.4, decisions 28 to 30): messages that wait for an agent.
//!
//! The aggregate holds open messages only. A message that is delivered or cancelled is stored as a separate record, by which a
//! repeated `messageId` is recognised.

mod injections;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::MessageContent;
use crate::value::{MessageImage, MessagePriority, MessageSource, MessageStatus};
use crate::{Events, MessageId, SessionEvent, Timestamp, TurnId};

/// A message to the agent (S0 8.4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionMessage {
    /// Id of the message, chosen by the sender or generated.
    pub message_id: MessageId,
    /// Text of the message.
    pub content: MessageContent,
    /// Images of the message. An edit of the text does not change them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<MessageImage>,
    /// Whether the message is delivered within the running turn or after it.
    pub priority: MessagePriority,
    /// Delivery status.
    pub status: MessageStatus,
    /// Who sent the message.
    pub source: MessageSource,
    /// The turn that the message is meant for (decision 30). It is cancelled when that turn is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_turn_id: Option<TurnId>,
    /// Whether the message was sent to the sidecar and is not acknowledged yet.
    #[serde(default)]
    pub sent: bool,
    /// Whether it is unknown if the agent received the message (decision 30). Release the message to send it again.
    #[serde(default)]
    pub delivery_uncertain: bool,
    /// When the message was enqueued.
    pub created_at: Timestamp,
    /// When the agent received it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_at: Option<Timestamp>,
}

/// The queue is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    #[error("there is no message {0} in the queue of this session")]
    NotFound(MessageId),
    #[error("the message was already sent to the agent")]
    AlreadySent,
    /// The id was already used for a different message (decision 28).
    #[error("a different message with this id is in the queue already")]
    IdempotencyMismatch,
    #[error("the message is immediate already")]
    AlreadyImmediate,
    #[error("the queue is full: it holds at most {max_messages} messages and {max_kib} KiB of text")]
    Full { max_messages: usize, max_kib: usize },
}

impl QueueError {
    /// Stable error code (decision 5).
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
    /// Immediate messages first; within a priority in the owner's order (decision 28).
    messages: Vec<SessionMessage>,
    /// Whether messages wait for the owner after an interrupt (decision 29).
    held: bool,
    /// Knowledge for the agent: at most one injection that was sent and one that waits. The methods for owners concern messages only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    injections: Vec<injections::QueuedInjection>,
}

/// Upper bound for a stored reference to an image, in bytes of JSON.
const IMAGE_BYTES: usize = 200;

/// In bytes of JSON, including escapes.
fn stored_bytes(content: &MessageContent, images: &[MessageImage]) -> usize {
    let escaped = |c: char| match c {
        '"' | '\\' | '\n' | '\r' | '\t' => 2,
        c if c < ' ' => 6,
        c => c.len_utf8(),
    };
    content.as_str().chars().map(escaped).sum::<usize>() + IMAGE_BYTES * images.len()
}

impl SessionMessageQueue {
    /// Most open messages.
    pub const MAX_MESSAGES: usize = 100;
    /// Most text of open messages, with references to their images, in bytes of JSON; the aggregate is stored as a single item.
    pub const MAX_BYTES: usize = 160 * 1024;
    const FULL: QueueError =
        QueueError::Full { max_messages: Self::MAX_MESSAGES, max_kib: Self::MAX_BYTES / 1024 };

    pub fn messages(&self) -> &[SessionMessage] {
        &self.messages
    }

    pub const fn is_held(&self) -> bool {
        self.held
    }

    /// The message or injection with this id.
    pub fn get(&self, id: MessageId) -> Option<&SessionMessage> {
        self.messages.iter().find(|m| m.message_id == id).or_else(|| self.injection(id))
    }

    fn get_mut(&mut self, id: MessageId) -> Result<&mut SessionMessage, QueueError> {
        self.messages.iter_mut().find(|m| m.message_id == id).ok_or(QueueError::NotFound(id))
    }

    fn pending_mut(&mut self, id: MessageId) -> Result<&mut SessionMessage, QueueError> {
        let message = self.get_mut(id)?;
        if message.sent { Err(QueueError::AlreadySent) } else { Ok(message) }
    }

    /// Refuses a message that is not in the queue, or that was sent.
    pub(crate) fn ensure_pending(&mut self, id: MessageId) -> Result<(), QueueError> {
        self.pending_mut(id).map(|_| ())
    }

    /// Index after the last message of this or a more urgent priority.
    fn end_of(&self, priority: MessagePriority) -> usize {
        self.messages.iter().position(|m| m.priority > priority).unwrap_or(self.messages.len())
    }

    /// Adds a message at the end of its priority (S0 8.4 `Enqueue`). A message of the owner lifts a hold (decision 29). Enqueuing
    /// the same message again changes nothing (decision 28).
    pub fn enqueue(&mut self, message: SessionMessage) -> Result<Events, QueueError> {
        if let Some(known) = self.messages.iter().find(|m| m.message_id == message.message_id) {
            let same = known.content == message.content
                && known.expected_turn_id == message.expected_turn_id
                && MessageImage::are_same(&known.images, &message.images);
            return if same { Ok(Vec::new()) } else { Err(QueueError::IdempotencyMismatch) };
        }
        let bytes: usize = self.messages.iter().map(|m| stored_bytes(&m.content, &m.images)).sum();
        if self.messages.len() >= Self::MAX_MESSAGES
            || bytes + stored_bytes(&message.content, &message.images) > Self::MAX_BYTES
        {
            return Err(Self::FULL);
        }
        Ok(self.take(message))
    }

    /// Adds a message regardless of the limits: messages of Pilothouse itself are few, and no caller could handle a refusal.
    pub(crate) fn take(&mut self, message: SessionMessage) -> Events {
        let mut events = vec![SessionEvent::MessageEnqueued {
            message_id: message.message_id,
            priority: message.priority,
            source: message.source,
            content: message.content.clone(),
            images: message.images.clone(),
        }];
        if message.source == MessageSource::User {
            events.extend(self.release_hold());
        }
        let at = self.end_of(message.priority);
        self.messages.insert(at, message);
        events
    }

    pub fn edit(&mut self, id: MessageId, content: MessageContent) -> Result<Events, QueueError> {
        let images = self.pending_mut(id)?.images.clone();
        let others = self.messages.iter().filter(|m| m.message_id != id);
        let bytes: usize = others.map(|m| stored_bytes(&m.content, &m.images)).sum();
        if bytes + stored_bytes(&content, &images) > Self::MAX_BYTES {
            return Err(Self::FULL);
        }
        self.get_mut(id)?.content = content.clone();
        Ok(vec![SessionEvent::MessageEdited { message_id: id, content }])
    }

    /// Moves a pending message to `position` (from 0) among the messages of its priority.
    pub fn move_to(&mut self, id: MessageId, position: usize) -> Result<Events, QueueError> {
        let priority = self.pending_mut(id)?.priority;
        let from = self.messages.iter().position(|m| m.message_id == id).ok_or(QueueError::NotFound(id))?;
        let message = self.messages.remove(from);
        let start = self.messages.iter().position(|m| m.priority >= priority).unwrap_or(self.messages.len());
        let end = self.end_of(priority);
        self.messages.insert((start + position).min(end), message);
        Ok(vec![SessionEvent::MessageMoved { message_id: id }])
    }

    /// Cancels a pending message (S0 8.4 `Cancel`).
    pub fn cancel(&mut self, id: MessageId) -> Result<(SessionMessage, Events), QueueError> {
        self.pending_mut(id)?;
        self.drop_message(id, None).ok_or(QueueError::NotFound(id))
    }

    /// Removes a message as cancelled, whether or not it was sent.
    pub(crate) fn drop_message(
        &mut self,
        id: MessageId,
        reason: Option<&str>,
    ) -> Option<(SessionMessage, Events)> {
        let at = self.messages.iter().position(|m| m.message_id == id)?;
        let mut message = self.messages.remove(at);
        message.status = MessageStatus::Cancelled;
        let event = SessionEvent::MessageCancelled { message_id: id, reason: reason.map(str::to_owned) };
        Some((message, vec![event]))
    }

    /// Makes a queued message the last immediate one (S0 8.4 `Promote`). Lifts a hold (decision 29).
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
        let mut events = vec![SessionEvent::MessagePromoted { message_id: id }];
        events.extend(self.release_hold());
        Ok(events)
    }

    /// Lifts a hold and allows an uncertain message to be sent again (decisions 29, 30).
    pub fn release(&mut self, id: MessageId) -> Result<Events, QueueError> {
        let message = self.get_mut(id)?;
        if message.sent && !message.delivery_uncertain {
            return Err(QueueError::AlreadySent);
        }
        message.sent = false;
        message.delivery_uncertain = false;
        self.held = false;
        Ok(vec![SessionEvent::MessagesReleased {}])
    }

    /// Cancels all messages that were not sent.
    pub fn clear(&mut self) -> (Vec<SessionMessage>, Events) {
        let ids: Vec<_> = self.messages.iter().filter(|m| !m.sent).map(|m| m.message_id).collect();
        self.drop_all(&ids, None)
    }

    /// Cancels all messages, sent or not, because the session has ended (decision 30).
    pub(crate) fn end(&mut self) -> (Vec<SessionMessage>, Events) {
        let ids: Vec<_> = self.messages.iter().map(|m| m.message_id).collect();
        let (mut gone, mut events) = self.drop_all(&ids, Some("session-ended"));
        let (injections, ended) = self.end_injections("session-ended");
        gone.extend(injections);
        events.extend(ended);
        (gone, events)
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

    /// The next message to deliver (S0 8.4 `GetNextPending`); `None` while messages are held.
    pub fn next_pending(&self) -> Option<&SessionMessage> {
        if self.held { None } else { self.messages.iter().find(|m| !m.sent && !m.delivery_uncertain) }
    }

    pub(crate) fn next_immediate(&self) -> Option<&SessionMessage> {
        self.next_pending().filter(|m| m.priority == MessagePriority::Immediate)
    }

    /// Holds all open messages after an interrupt until the owner acts (decision 29). Sent messages that are returned later are
    /// held too.
    pub(crate) fn hold_at_interrupt(&mut self) -> Events {
        if self.held || self.messages.is_empty() {
            return Vec::new();
        }
        self.held = true;
        vec![SessionEvent::MessagesHeld {}]
    }

    /// A pending message that is meant for a turn other than `current` (decision 30).
    pub(crate) fn outdated_for(&self, current: Option<&TurnId>) -> Option<MessageId> {
        let too_late = |m: &&SessionMessage| {
            !m.sent && m.expected_turn_id.is_some() && m.expected_turn_id.as_ref() != current
        };
        self.messages.iter().find(too_late).map(|m| m.message_id)
    }

    /// Holds the pending messages, if there are any, until the owner acts (decision 29).
    pub(crate) fn hold(&mut self) -> Events {
        if self.held || !self.messages.iter().any(|m| !m.sent && !m.delivery_uncertain) {
            return Vec::new();
        }
        self.held = true;
        vec![SessionEvent::MessagesHeld {}]
    }

    fn release_hold(&mut self) -> Events {
        if std::mem::take(&mut self.held) { vec![SessionEvent::MessagesReleased {}] } else { Vec::new() }
    }

    pub(crate) fn mark_sent(&mut self, id: MessageId) {
        if let Ok(message) = self.get_mut(id) {
            message.sent = true;
        }
    }

    /// Removes a delivered message (S0 8.4 `MarkDelivered`). `None` if the queue does not have it.
    pub(crate) fn mark_delivered(
        &mut self,
        id: MessageId,
        now: Timestamp,
    ) -> Option<(SessionMessage, Events)> {
        let mut message = match self.messages.iter().position(|m| m.message_id == id) {
            Some(at) => self.messages.remove(at),
            None => self.take_injection(id)?,
        };
        message.status = MessageStatus::Delivered;
        message.delivered_at = Some(now);
        message.delivery_uncertain = false;
        let event = SessionEvent::MessageDelivered {
            message_id: id,
            source: message.source,
            content: message.content.clone(),
            images: message.images.clone(),
            delivered_at: now,
        };
        Some((message, vec![event]))
    }

    /// Returns a message that the agent did not receive to the pending ones.
    pub(crate) fn requeue(&mut self, id: MessageId, reason: &str) -> Events {
        match self.get_mut(id) {
            Ok(message) if message.sent => {
                message.sent = false;
                vec![SessionEvent::MessageReturned { message_id: id, reason: reason.to_owned() }]
            }
            _ => Vec::new(),
        }
    }

    /// Marks a message whose delivery is unknown.
    pub(crate) fn mark_uncertain(&mut self, id: MessageId) -> Events {
        match self.get_mut(id) {
            Ok(message) => {
                message.delivery_uncertain = true;
                message.sent = false;
                vec![SessionEvent::MessageUncertain { message_id: id }]
            }
            Err(_) => Vec::new(),
        }
    }
}

/// Moving a queue to another session.
impl SessionMessageQueue {
    /// Moves all messages to the session that continues the work (decision 30). Uncertain messages stay uncertain. Injections stay
    /// behind: the other conversation does not have what they build on.
    pub(crate) fn hand_off(&mut self) -> Self {
        let injections = std::mem::take(&mut self.injections);
        std::mem::replace(self, Self { injections, ..Self::default() })
    }
}
