//! Messages to the agent (decisions 29 and 30).
//!
//! Claude Code has three priorities. `next` enters the turn after the running tools, as Immediate requires (S1: between
//! tool calls). `later` follows the turn; instead, the adapter keeps Queued messages, so that an interrupt can hold
//! them. `now` splits the turn and is never used.

use std::collections::VecDeque;

use pilothouse_domain::value::MessageImage;
use pilothouse_domain::{MessageId, TurnId};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::adapter::{Message, MessageReply};
use crate::kit::images::LoadedImage;
use crate::kit::messages::{HeldMessage, MessageQueue};

/// The content of a message. Its images are loaded just before it is written.
#[derive(Debug, Clone)]
pub(super) struct Content {
    pub text: String,
    pub images: Vec<MessageImage>,
}

impl Content {
    /// This content and `next` in one message.
    pub(super) fn followed_by(mut self, next: Self) -> Self {
        self.text.push_str("\n\n");
        self.text.push_str(&next.text);
        self.images.extend(next.images);
        self
    }
}

/// A message that Claude Code has received, but not the model.
#[derive(Debug)]
struct Written {
    uuid: String,
    content: Content,
    /// The task of the session, if the content begins with it.
    task: Option<Content>,
    /// `None` for a message of the adapter itself.
    message: Option<HeldMessage>,
    /// An interrupt has recalled it.
    recalled: bool,
    /// Claude Code has asked to process it, so the model may have it.
    taken: bool,
    /// It was already written to a second process.
    again: bool,
}

/// A message that is kept until a process is initialized and the agent is not paused.
#[derive(Debug)]
struct Kept {
    content: Content,
    /// Of a message that was written to an earlier process. `None` for a new one of the adapter itself.
    uuid: Option<String>,
    /// It is the task of the session.
    is_task: bool,
}

/// A message that the agent does not get.
#[derive(Debug, Default)]
pub(super) struct Withdrawn {
    /// The task of the session, which the agent does not have either.
    pub task: Option<Content>,
    /// `None` for a message of the adapter itself.
    pub message: Option<HeldMessage>,
}

impl From<Written> for Withdrawn {
    fn from(Written { task, message, taken, .. }: Written) -> Self {
        Self { task: task.filter(|_| !taken), message }
    }
}

/// Messages that the model has not received yet.
#[derive(Debug, Default)]
pub(super) struct Messages {
    waiting: MessageQueue,
    written: Vec<Written>,
    /// Written before those that wait.
    kept: Vec<Kept>,
}

#[derive(Debug)]
pub(super) enum Next {
    Write(Box<HeldMessage>),
    /// Refuse it, because its turn is over (decision 30).
    TooLate(Box<HeldMessage>),
}

/// The line of a message. Claude Code takes the last text of a message with images as its prompt.
pub(super) fn line(text: &str, images: &[LoadedImage], uuid: &str, priority: &str) -> Value {
    let content = if images.is_empty() {
        json!(text)
    } else {
        let images = images.iter().map(|image| {
            let source = json!({ "type": "base64", "media_type": image.media_type, "data": image.base64 });
            json!({ "type": "image", "source": source })
        });
        images.chain([json!({ "type": "text", "text": text })]).collect()
    };
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
    pub(super) fn take(&mut self, message: Message, reply: MessageReply) {
        self.waiting.push((message, reply));
    }

    /// The next message that may be sent: Immediate ones at any time, Queued ones between turns, one at a time.
    pub(super) fn next(&mut self, turn: Option<&TurnId>) -> Option<Next> {
        if let Some(late) = self.waiting.next_late(turn) {
            return Some(Next::TooLate(Box::new(late)));
        }
        let next = match turn {
            Some(_) => self.waiting.next_immediate(),
            // Between turns, the message that was written is about to begin one.
            None if self.any_written() => None,
            None => self.waiting.next(),
        };
        next.map(|next| Next::Write(Box::new(next)))
    }

    /// Returns the message that [`Self::next`] has removed.
    pub(super) fn put_back(&mut self, message: HeldMessage) {
        self.waiting.put_back(message);
    }

    /// Records a message as written with this content, which begins with `task`. Returns the `uuid` for its line, which is the message's
    /// id.
    pub(super) fn written(
        &mut self,
        content: Content,
        task: Option<Content>,
        (message, reply): HeldMessage,
    ) -> String {
        let uuid = message.id.to_string();
        self.written.push(Written {
            uuid: uuid.clone(),
            content,
            task,
            message: Some((message, reply)),
            recalled: false,
            taken: false,
            again: false,
        });
        uuid
    }

    /// Records a message of the adapter itself. Returns the `uuid` for its line.
    pub(super) fn own(&mut self, content: Content, is_task: bool) -> String {
        let uuid = Uuid::new_v4().to_string();
        self.written.push(Written {
            uuid: uuid.clone(),
            task: is_task.then(|| content.clone()),
            content,
            message: None,
            recalled: false,
            taken: false,
            again: false,
        });
        uuid
    }

    /// Keeps a message of the adapter itself until it can be written.
    pub(super) fn keep_own(&mut self, content: Content) {
        self.kept.push(Kept { content, uuid: None, is_task: false });
    }

    /// Keeps the task of the session until it can be written.
    pub(super) fn keep_task(&mut self, content: Content) {
        self.kept.push(Kept { content, uuid: None, is_task: true });
    }

    /// Removes the kept messages, because they are written now: their contents and ids.
    pub(super) fn take_kept(&mut self) -> Vec<(Content, String)> {
        let mut lines = Vec::new();
        for Kept { content, uuid, is_task } in std::mem::take(&mut self.kept) {
            let uuid = uuid.unwrap_or_else(|| self.own(content.clone(), is_task));
            lines.push((content, uuid));
        }
        lines
    }

    /// Removes the kept messages, because they are not written.
    pub(super) fn withdraw_kept(&mut self) -> Vec<Withdrawn> {
        let mut withdrawn = Vec::new();
        for Kept { content, uuid, is_task } in std::mem::take(&mut self.kept) {
            withdrawn.push(match uuid.and_then(|uuid| self.take_written(&uuid)) {
                Some(written) => written.into(),
                None => Withdrawn { task: is_task.then_some(content), message: None },
            });
        }
        withdrawn
    }

    /// Whether a message that continues the turn follows once a process is initialized.
    pub(super) fn continues_turn(&self) -> bool {
        !self.kept.is_empty() || self.waiting.has_immediate()
    }

    pub(super) const fn any_kept(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Whether no message waits for the agent or is on its way to it.
    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.written.is_empty() && self.waiting.is_empty()
    }

    /// Whether a prompt of Claude Code was written by this adapter.
    pub(super) fn is_ours(&self, prompt: &str) -> bool {
        self.written.iter().any(|written| !written.recalled && written.content.text == prompt)
    }

    /// The message of a prompt that is being processed.
    pub(super) fn of_prompt(&mut self, prompt: &str) -> Option<MessageId> {
        // Messages with the same text are processed in order.
        let fits = |written: &&mut Written| written.content.text == prompt && !written.taken;
        let written = self.written.iter_mut().find(fits)?;
        written.taken = true;
        written.message.as_ref().map(|(message, _)| message.id)
    }

    /// Removes a message that the model has received, so that it can be acknowledged.
    pub(super) fn started(&mut self, uuid: &str) -> Option<HeldMessage> {
        self.take_written(uuid)?.message
    }

    /// Marks all written messages that the model has not received as recalled. Returns their ids.
    pub(super) fn recall(&mut self) -> Vec<String> {
        for written in &mut self.written {
            written.recalled = true;
        }
        self.written.iter().map(|written| written.uuid.clone()).collect()
    }

    /// Handles the response to a recall. If `cancelled` is set, the model never gets the message, which is returned.
    pub(super) fn recalled(&mut self, uuid: &str, cancelled: bool) -> Option<Withdrawn> {
        if cancelled {
            return self.take_written(uuid).map(Withdrawn::from);
        }
        for written in self.written.iter_mut().filter(|written| written.uuid == uuid) {
            written.recalled = false;
        }
        None
    }

    /// Removes all messages that were not written yet.
    pub(super) fn take_waiting(&mut self) -> VecDeque<HeldMessage> {
        self.waiting.take_all()
    }

    /// Removes all messages that were written to a process which has ended.
    pub(super) fn take_all_written(&mut self) -> Vec<Withdrawn> {
        self.written.drain(..).map(Withdrawn::from).collect()
    }

    /// Keeps the written messages for another process after one has ended between turns. Returns `false` and keeps none if
    /// a message may have reached the model, or was already written twice.
    pub(super) fn keep_written(&mut self) -> bool {
        if self.written.iter().any(|written| written.taken || written.again || written.recalled) {
            return false;
        }
        for written in &mut self.written {
            written.again = true;
            let (content, uuid) = (written.content.clone(), Some(written.uuid.clone()));
            // The record of the written message has the task.
            self.kept.push(Kept { content, uuid, is_task: false });
        }
        true
    }

    /// Whether the model has not received a message that Claude Code has.
    pub(super) const fn any_written(&self) -> bool {
        !self.written.is_empty()
    }

    /// Like [`Self::any_written`], without the messages of an earlier process.
    pub(super) fn any_given(&self) -> bool {
        let is_kept = |uuid: &str| self.kept.iter().any(|kept| kept.uuid.as_deref() == Some(uuid));
        self.written.iter().any(|written| !is_kept(&written.uuid))
    }

    fn take_written(&mut self, uuid: &str) -> Option<Written> {
        let at = self.written.iter().position(|written| written.uuid == uuid)?;
        Some(self.written.remove(at))
    }
}
