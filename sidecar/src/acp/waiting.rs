//! Waiting messages, and those that are being sent into the turn.

use std::collections::BTreeMap;

use pilothouse_domain::TurnId;
use pilothouse_domain::value::MessagePriority;

use crate::adapter::{Message, MessageReply};
use crate::kit::messages::{Held, MessageQueue};

#[allow(clippy::large_enum_variant)] // only a few at a time
pub(super) enum Waiting {
    /// From the control plane.
    Message(Message, MessageReply),
    /// From the adapter, for content that a protocol response has no field for.
    Own(String),
}

impl Held for Waiting {
    fn is_immediate(&self) -> bool {
        match self {
            Self::Message(message, _) => message.priority == MessagePriority::Immediate,
            Self::Own(_) => true,
        }
    }
}

impl Waiting {
    pub(super) fn words(&self) -> &str {
        match self {
            Self::Message(message, _) => &message.content,
            Self::Own(words) => words,
        }
    }
}

/// Messages that wait, and messages that are being sent into the turn.
#[derive(Default)]
pub(super) struct Messages {
    pub(super) waiting: MessageQueue<Waiting>,
    pub(super) steering: BTreeMap<u64, Waiting>,
    pub(super) steered: u64,
    /// Messages up to this number were being sent into this turn when it was interrupted.
    pub(super) interrupted: Option<(u64, TurnId)>,
}

impl Messages {
    pub(super) fn add_own(&mut self, words: String) {
        self.waiting.push(Waiting::Own(words));
    }

    /// The interrupted turn into which the message with this number was being sent.
    pub(super) fn was_interrupted(&self, number: u64) -> Option<&TurnId> {
        self.interrupted.as_ref().filter(|(last, _)| number <= *last).map(|(_, turn)| turn)
    }
}
