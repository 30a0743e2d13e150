//! Sends messages to the agent: those of the control plane, and the adapter's own.

use pilothouse_domain::value::MessagePriority;
use serde_json::Value;

use super::driver::Driver;
use super::messages::{self, Content, Next};
use super::tool_hooks::Mode;
use crate::adapter::{AdapterError, Refusal};
use crate::kit::images::LoadedImage;

impl Driver {
    /// Writes the messages that may be written now. Starts the process if there are any and it is not running.
    pub(super) async fn deliver_messages(&mut self) -> Result<(), AdapterError> {
        if self.is_ready() {
            self.write_kept().await?;
        } else if self.messages.any_kept() {
            self.start_process()?;
        }
        while let Some(next) = self.messages.next(self.translator.turn_id()) {
            match next {
                Next::TooLate(late) => {
                    let (message, reply) = *late;
                    if let Some(turn) = &message.expected_turn {
                        reply.refuse(Refusal::turn_over(turn)).await?;
                    }
                }
                Next::Write(next) if !self.is_ready() => {
                    self.messages.put_back(*next);
                    return self.start_process();
                }
                Next::Write(next) => {
                    let (message, mut reply) = *next;
                    let content = Content { text: message.content.clone(), images: message.images.clone() };
                    let task = self.withdrawn_task.take();
                    let content = match task.clone() {
                        Some(task) => task.followed_by(content),
                        None => content,
                    };
                    let images = self.images.load(&content.images, &self.events).await?;
                    reply.injecting().await?;
                    let priority =
                        if message.priority == MessagePriority::Immediate { "next" } else { "later" };
                    let words = content.text.clone();
                    let uuid = self.messages.written(content, task, (message, reply));
                    self.write_words(&words, &images, &uuid, priority);
                }
            }
        }
        Ok(())
    }

    /// Sends a message of the adapter itself. Starts the process if it is not running.
    pub(super) fn say(&mut self, words: &str) -> Result<(), AdapterError> {
        let content = Content { text: words.to_owned(), images: Vec::new() };
        if !self.is_ready() {
            self.messages.keep_own(content);
            return self.start_process();
        }
        let uuid = self.messages.own(content, false);
        self.write_words(words, &[], &uuid, "next");
        Ok(())
    }

    /// Writes the messages that were kept until the process was initialized.
    pub(super) async fn write_kept(&mut self) -> Result<(), AdapterError> {
        for (Content { text, images }, uuid) in self.messages.take_kept() {
            let images = self.images.load(&images, &self.events).await?;
            self.write_words(&text, &images, &uuid, "next");
        }
        Ok(())
    }

    fn write_words(&mut self, words: &str, images: &[LoadedImage], uuid: &str, priority: &str) {
        // A stopped agent continues with the next message.
        if self.tool_hooks.mode() == Mode::Stopped {
            let released = self.tool_hooks.open();
            self.answer_hooks(released);
        }
        self.waits_for_model = false;
        self.write(&messages::line(words, images, uuid, priority));
    }

    /// Writes a line to Claude Code, if it is running.
    pub(super) fn write(&self, line: &Value) {
        if let Some(process) = &self.process {
            process.write(line);
        }
    }
}
