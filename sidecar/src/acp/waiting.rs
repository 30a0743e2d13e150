//! Waiting messages, and those that are being sent into the turn.

use std::collections::BTreeMap;

use pilothouse_domain::TurnId;
use pilothouse_domain::value::{MessageImage, MessagePriority};

use crate::adapter::{Message, MessageReply};
use crate::kit::messages::{Held, MessageQueue};

#[allow(clippy::large_enum_variant)] // only a few at a time
pub(super) enum Waiting {
    /// From the control plane.
    Message(Message, MessageReply),
    Own(OwnPrompt),
}

/// A prompt of the adapter itself: the task of the session, or content that a protocol response has no field for.
pub(super) struct OwnPrompt {
    pub(super) words: String,
    /// Only the task has images.
    pub(super) images: Vec<MessageImage>,
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
            Self::Own(own) => &own.words,
        }
    }

    pub(super) fn images(&self) -> &[MessageImage] {
        match self {
            Self::Message(message, _) => &message.images,
            Self::Own(own) => &own.images,
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
        self.waiting.push(Waiting::Own(OwnPrompt { words, images: Vec::new() }));
    }

    /// The interrupted turn into which the message with this number was being sent.
    pub(super) fn was_interrupted(&self, number: u64) -> Option<&TurnId> {
        self.interrupted.as_ref().filter(|(last, _)| number <= *last).map(|(_, turn)| turn)
    }
}
