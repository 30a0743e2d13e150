//! Sends messages to the agent: those of the control plane, and the adapter's own.

use pilothouse_domain::value::MessagePriority;
use serde_json::Value;

use super::driver::Driver;
use super::messages::{self, Next};
use super::tool_hooks::Mode;
use crate::adapter::{AdapterError, Refusal};

impl Driver {
    pub(super) async fn deliver_messages(&mut self) -> Result<(), AdapterError> {
        while let Some(next) = self.messages.next(self.translator.turn_id()) {
            match next {
                Next::TooLate(late) => {
                    let (message, reply) = *late;
                    if let Some(turn) = &message.expected_turn {
                        reply.refuse(Refusal::turn_over(turn)).await?;
                    }
                }
                Next::Write(next) => {
                    let (message, mut reply) = *next;
                    if let Err(e) = self.start_process().await {
                        reply.refuse(Refusal::no_agent()).await?;
                        return Err(e);
                    }
                    reply.injecting().await?;
                    let priority =
                        if message.priority == MessagePriority::Immediate { "next" } else { "later" };
                    let content = message.content.clone();
                    let uuid = self.messages.written(message, reply);
                    self.write_words(&content, &uuid, priority);
                }
            }
        }
        Ok(())
    }

    /// Sends a message of the adapter itself.
    pub(super) async fn say(&mut self, words: &str, priority: &str) -> Result<(), AdapterError> {
        self.start_process().await?;
        let uuid = self.messages.own(words);
        self.write_words(words, &uuid, priority);
        Ok(())
    }

    fn write_words(&mut self, words: &str, uuid: &str, priority: &str) {
        // A stopped agent continues with the next message.
        if self.tool_hooks.mode() == Mode::Stopped {
            let released = self.tool_hooks.open();
            self.answer_hooks(released);
        }
        self.waits_for_model = false;
        self.write(&messages::line(words, uuid, priority));
    }

    /// Writes a line to Claude Code, if it is running.
    pub(super) fn write(&self, line: &Value) {
        if let Some(process) = &self.process {
            process.write(line);
        }
    }
}
