//! What is said to the agent: the messages whose time has come, and the adapter's own words.

use pilothouse_domain::value::MessagePriority;
use serde_json::Value;

use super::driver::Driver;
use super::gate::Mode;
use super::messages::{self, Next};
use crate::adapter::{AdapterError, Refusal};

impl Driver {
    /// Gives the agent each message that it may have now.
    pub(super) async fn give_messages(&mut self) -> Result<(), AdapterError> {
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
                    self.write_words(&content, &uuid, priority).await?;
                }
            }
        }
        Ok(())
    }

    /// The adapter itself says something to the agent.
    pub(super) async fn say(&mut self, words: &str, priority: &str) -> Result<(), AdapterError> {
        self.start_process().await?;
        let uuid = self.messages.own(words);
        self.write_words(words, &uuid, priority).await
    }

    async fn write_words(&mut self, words: &str, uuid: &str, priority: &str) -> Result<(), AdapterError> {
        // Whoever was stopped goes on when somebody says something.
        if self.gate.mode() == Mode::Stopped {
            for (request, answer) in self.gate.open() {
                self.answer(&request, &answer).await;
            }
        }
        self.out_of_quota = false;
        self.write(&messages::line(words, uuid, priority)).await;
        Ok(())
    }

    /// Writes a line to the binary, if there is one.
    pub(super) async fn write(&mut self, line: &Value) {
        if let Some(process) = &mut self.process {
            process.write(line).await;
        }
    }
}
