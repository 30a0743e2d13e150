//! Messages on their way to the agent (rulings 29 and 30).
//!
//! The binary has three priorities. `next` enters the turn after the tools that run: that is what Immediate means (S1: between
//! tool calls). `later` follows the turn; Queued messages wait here instead, where an interrupt can hold them. `now` breaks
//! the turn in two, and is never used.

use std::collections::VecDeque;

use pilothouse_domain::value::MessagePriority;
use pilothouse_domain::{MessageId, TurnId};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::adapter::{Message, MessageReply};

/// A message that the binary has and the model has not.
#[derive(Debug)]
struct Written {
    uuid: String,
    content: String,
    /// None: the adapter's own words.
    message: Option<(Message, MessageReply)>,
    /// An interrupt asked for it back.
    recalled: bool,
    /// The binary has asked whether it may take it up: from here on the model may have it.
    taken: bool,
    /// It was written to a second process already.
    again: bool,
}

/// The messages under way.
#[derive(Debug, Default)]
pub(super) struct Messages {
    waiting: VecDeque<(Message, MessageReply)>,
    written: Vec<Written>,
}

/// What can be done with the next message.
#[derive(Debug)]
pub(super) enum Next {
    /// It can be written.
    Write(Box<(Message, MessageReply)>),
    /// The turn that it was meant for is over (ruling 30).
    TooLate(Box<(Message, MessageReply)>),
}

/// The line of a user's message.
pub(super) fn line(content: &str, uuid: &str, priority: &str) -> Value {
    json!({
        "type": "user",
        "message": { "role": "user", "content": content },
        "parent_tool_use_id": null,
        "session_id": "",
        "uuid": uuid,
        "priority": priority,
    })
}

impl Messages {
    /// A message has come.
    pub(super) fn take(&mut self, message: Message, reply: MessageReply) {
        self.waiting.push_back((message, reply));
    }

    /// The next message whose time has come: Immediate ones within a turn and between turns, Queued ones between turns, one
    /// after the other.
    pub(super) fn next(&mut self, turn: Option<&TurnId>) -> Option<Next> {
        let too_late =
            |message: &Message| message.expected_turn.as_ref().is_some_and(|expected| Some(expected) != turn);
        if let Some(at) = self.waiting.iter().position(|(message, _)| too_late(message)) {
            return self.waiting.remove(at).map(|late| Next::TooLate(Box::new(late)));
        }
        let immediate =
            self.waiting.iter().position(|(message, _)| message.priority == MessagePriority::Immediate);
        let at = match (immediate, turn) {
            // Between turns, what was written is about to begin one.
            (_, None) if !self.written.is_empty() => return None,
            (Some(at), _) => at,
            (None, Some(_)) => return None,
            (None, None) => 0,
        };
        self.waiting.remove(at).map(|next| Next::Write(Box::new(next)))
    }

    /// It is written: how its line is marked. The message's id is the line's `uuid`.
    pub(super) fn written(&mut self, message: Message, reply: MessageReply) -> String {
        let uuid = message.id.to_string();
        let content = message.content.clone();
        self.written.push(Written {
            uuid: uuid.clone(),
            content,
            message: Some((message, reply)),
            recalled: false,
            taken: false,
            again: false,
        });
        uuid
    }

    /// The adapter itself says something: how its line is marked.
    pub(super) fn own(&mut self, content: &str) -> String {
        let uuid = Uuid::new_v4().to_string();
        let content = content.to_owned();
        self.written.push(Written {
            uuid: uuid.clone(),
            content,
            message: None,
            recalled: false,
            taken: false,
            again: false,
        });
        uuid
    }

    /// Whether a prompt that the binary takes up is one that was written here.
    pub(super) fn is_ours(&self, prompt: &str) -> bool {
        self.written.iter().any(|written| !written.recalled && written.content == prompt)
    }

    /// The message that a prompt is. It is taken up now.
    pub(super) fn of_prompt(&mut self, prompt: &str) -> Option<MessageId> {
        // Of two with the same words, the first is taken up first.
        let fits = |written: &&mut Written| written.content == prompt && !written.taken;
        let written = self.written.iter_mut().find(fits)?;
        written.taken = true;
        written.message.as_ref().map(|(message, _)| message.id)
    }

    /// The model has it: whom to tell.
    pub(super) fn started(&mut self, uuid: &str) -> Option<(Message, MessageReply)> {
        self.take_written(uuid)
    }

    /// Everything that was written and that the model has not: an interrupt takes it back. Their marks.
    pub(super) fn recall(&mut self) -> Vec<String> {
        for written in &mut self.written {
            written.recalled = true;
        }
        self.written.iter().map(|written| written.uuid.clone()).collect()
    }

    /// Whether the binary took a message out of its queue: `true` means that the model never gets it.
    pub(super) fn recalled(&mut self, uuid: &str, cancelled: bool) -> Option<(Message, MessageReply)> {
        if cancelled {
            return self.take_written(uuid);
        }
        for written in self.written.iter_mut().filter(|written| written.uuid == uuid) {
            written.recalled = false;
        }
        None
    }

    /// Everything that waits here.
    pub(super) fn take_waiting(&mut self) -> Vec<(Message, MessageReply)> {
        self.waiting.drain(..).collect()
    }

    /// The binary is gone with what it had not given to the model.
    pub(super) fn take_all_written(&mut self) -> Vec<(Message, MessageReply)> {
        self.written.drain(..).filter_map(|written| written.message).collect()
    }

    /// The binary is gone between turns. What it never asked to take up never reached the model, and can be written once
    /// more, to another process: the words with their marks. None: something may have, or it was tried before.
    pub(super) fn write_again(&mut self) -> Option<Vec<(String, String)>> {
        if self.written.iter().any(|written| written.taken || written.again || written.recalled) {
            return None;
        }
        let again = |written: &mut Written| {
            written.again = true;
            (written.content.clone(), written.uuid.clone())
        };
        Some(self.written.iter_mut().map(again).collect())
    }

    /// Whether the binary has something that the model has not.
    pub(super) const fn any_written(&self) -> bool {
        !self.written.is_empty()
    }

    fn take_written(&mut self, uuid: &str) -> Option<(Message, MessageReply)> {
        let at = self.written.iter().position(|written| written.uuid == uuid)?;
        self.written.remove(at).message
    }
}
