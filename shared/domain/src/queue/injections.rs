//! Context injections in the queue of a session (decision 89). They are stored apart from the messages, because holds, wakes
//! and the owner's order do not apply to them.

use serde::{Deserialize, Serialize};

use super::{SessionMessage, SessionMessageQueue};
use crate::injection::InjectionSlot;
use crate::value::MessageStatus;
use crate::{Events, MessageId, SessionEvent, TurnId};

/// An undelivered injection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct QueuedInjection {
    /// Its `expected_turn_id` is the turn that it was sent into last.
    message: SessionMessage,
    /// The message that it was sent with. That one starts a turn, and its acknowledgement is also that of the injection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attached_to: Option<MessageId>,
}

impl SessionMessageQueue {
    pub(super) fn injection(&self, id: MessageId) -> Option<&SessionMessage> {
        self.injections.iter().map(|it| &it.message).find(|message| message.message_id == id)
    }

    pub fn is_injection(&self, id: MessageId) -> bool {
        self.injection(id).is_some()
    }

    /// The injection that was not sent yet.
    pub fn pending_injection(&self) -> Option<&SessionMessage> {
        self.injections.iter().map(|it| &it.message).find(|message| !message.sent)
    }

    pub fn injection_slot(&self) -> InjectionSlot {
        if self.pending_injection().is_some() {
            InjectionSlot::Waiting
        } else if self.injections.is_empty() {
            InjectionSlot::Empty
        } else {
            InjectionSlot::InFlight
        }
    }

    /// Whether an injection was sent that the agent may not have yet.
    pub fn has_sent_injection(&self) -> bool {
        self.injections.iter().any(|it| it.message.sent)
    }

    /// The injection that was sent with a message.
    pub fn attached_to(&self, message: MessageId) -> Option<MessageId> {
        let attached = self.injections.iter().find(|it| it.attached_to == Some(message))?;
        Some(attached.message.message_id)
    }

    /// The text of a message for the agent, with that of the injection that is sent with it.
    pub fn text_for_agent(&self, message: &SessionMessage) -> String {
        let content = message.content.as_str();
        match self.attached_to(message.message_id).and_then(|id| self.injection(id)) {
            Some(injection) => format!("{}\n\n---\n\n{content}", injection.content.as_str()),
            None => content.to_owned(),
        }
    }

    /// Adds an injection. Returns the pending one, which it replaces.
    pub(crate) fn inject(&mut self, message: SessionMessage) -> (Option<SessionMessage>, Events) {
        let replaced = self.pending_injection().map(|pending| pending.message_id);
        let (replaced, mut events) = replaced
            .and_then(|id| self.drop_injection(id, "superseded"))
            .map_or((None, Vec::new()), |it| (Some(it.0), it.1));
        events.push(SessionEvent::MessageEnqueued {
            message_id: message.message_id,
            priority: message.priority,
            source: message.source,
            content: message.content.clone(),
            images: Vec::new(),
        });
        self.injections.push(QueuedInjection { message, attached_to: None });
        (replaced, events)
    }

    /// Marks the pending injection as sent into a turn.
    pub(crate) fn send_injection_into(&mut self, turn: &TurnId) -> Option<MessageId> {
        let pending = self.injections.iter_mut().find(|it| !it.message.sent)?;
        pending.message.sent = true;
        pending.message.expected_turn_id = Some(turn.clone());
        Some(pending.message.message_id)
    }

    /// Marks the pending injection as sent with a message.
    pub(crate) fn send_injection_with(&mut self, message: MessageId) {
        if let Some(pending) = self.injections.iter_mut().find(|it| !it.message.sent) {
            pending.message.sent = true;
            pending.attached_to = Some(message);
        }
    }

    /// Makes a sent injection pending again, because the agent did not receive it. If a newer one is pending, the older one is dropped.
    pub(crate) fn return_injection(
        &mut self,
        id: MessageId,
        reason: &str,
    ) -> (Option<SessionMessage>, Events) {
        if self.pending_injection().is_some_and(|newer| newer.message_id != id) {
            return self.drop_injection(id, "superseded").map_or((None, Vec::new()), |it| (Some(it.0), it.1));
        }
        match self.injections.iter_mut().find(|it| it.message.message_id == id && it.message.sent) {
            Some(sent) => {
                sent.message.sent = false;
                sent.attached_to = None;
                (None, vec![SessionEvent::MessageReturned { message_id: id, reason: reason.to_owned() }])
            }
            None => (None, Vec::new()),
        }
    }

    /// Removes an injection as cancelled, whether or not it was sent.
    pub(crate) fn drop_injection(&mut self, id: MessageId, reason: &str) -> Option<(SessionMessage, Events)> {
        let mut message = self.take_injection(id)?;
        message.status = MessageStatus::Cancelled;
        let event = SessionEvent::MessageCancelled { message_id: id, reason: Some(reason.to_owned()) };
        Some((message, vec![event]))
    }

    pub(super) fn take_injection(&mut self, id: MessageId) -> Option<SessionMessage> {
        let at = self.injections.iter().position(|it| it.message.message_id == id)?;
        Some(self.injections.remove(at).message)
    }

    pub(super) fn end_injections(&mut self, reason: &str) -> (Vec<SessionMessage>, Events) {
        let ids: Vec<_> = self.injections.iter().map(|it| it.message.message_id).collect();
        let dropped = ids.into_iter().filter_map(|id| self.drop_injection(id, reason));
        let (messages, events): (Vec<_>, Vec<_>) = dropped.unzip();
        (messages, events.into_iter().flatten().collect())
    }
}
