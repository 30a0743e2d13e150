//! Messages: held until their time has come, given to the agent, refused when it is over (rulings 29, 30).

use pilothouse_agent::session::PromptOptions;
use pilothouse_domain::TurnId;
use pilothouse_domain::value::MessagePriority;

use super::driver::{Break, Driver, MessageGiven};
use crate::adapter::{Message, MessageReply, Refusal};

impl Driver {
    /// A message came.
    pub(super) async fn message(&mut self, message: Message, reply: MessageReply) -> Result<(), Break> {
        if let Some(expected) = &message.expected_turn
            && self.turn.as_ref() != Some(expected)
        {
            let refusal = Refusal::turn_over(expected);
            return Ok(reply.refuse(refusal).await?);
        }
        self.held.push_back((message, reply));
        if self.paused {
            return Ok(());
        }
        if self.turn.is_none() {
            return self.next_held().await;
        }
        if self.work.is_none() {
            // The turn stands still, for its quota: it goes on with what is said, whatever comes of it.
            return self.go_on_with_messages().await;
        }
        // What holds the agent for its budget holds the message too: the turn goes on with it then.
        Ok(())
    }

    /// Whether a message is to go into the running turn.
    pub(super) fn has_immediate(&self) -> bool {
        self.held.iter().any(|(message, _)| message.priority == MessagePriority::Immediate)
    }

    fn take_immediate(&mut self) -> Vec<(Message, MessageReply)> {
        let all = std::mem::take(&mut self.held);
        let (now, later): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(message, _)| message.priority == MessagePriority::Immediate);
        self.held = later.into();
        now
    }

    /// Gives what waits to the running turn, before the next call of the model.
    pub(super) async fn steer(&mut self) -> Result<(), Break> {
        for (message, reply) in self.take_immediate() {
            let options = self.giving(&message, reply).await?;
            self.session()?
                .steer(&message.content, options)
                .map_err(|e| crate::adapter::AdapterError::Agent(e.to_string()))?;
        }
        Ok(())
    }

    /// The turn goes on with what waits for it: all that is Immediate, else the first.
    pub(super) async fn go_on_with_messages(&mut self) -> Result<(), Break> {
        let mut now = self.take_immediate();
        if now.is_empty() {
            now.extend(self.held.pop_front());
        }
        let Some((last, last_reply)) = now.pop() else { return self.go_on() };
        for (message, reply) in now {
            let options = self.giving(&message, reply).await?;
            self.session()?
                .steer(&message.content, options)
                .map_err(|e| crate::adapter::AdapterError::Agent(e.to_string()))?;
        }
        let options = self.giving(&last, last_reply).await?;
        self.prompt(last.content, options)
    }

    async fn giving(&mut self, message: &Message, mut reply: MessageReply) -> Result<PromptOptions, Break> {
        reply.injecting().await?;
        let tag = message.id.to_string();
        self.giving.push(MessageGiven { tag: tag.clone(), reply });
        Ok(PromptOptions { tag: Some(tag), ..PromptOptions::default() })
    }

    /// A message is in the conversation.
    pub(super) async fn injected(&mut self, tag: &str) -> Result<(), Break> {
        if let Some(at) = self.giving.iter().position(|given| given.tag == tag) {
            self.keep().await?;
            self.giving.remove(at).reply.injected().await?;
        }
        Ok(())
    }

    /// What was given and is not in the conversation does not get there any more.
    pub(super) async fn refuse_given(&mut self, turn: &TurnId) -> Result<(), Break> {
        self.session()?.take_queued();
        for given in std::mem::take(&mut self.giving) {
            given.reply.refuse(Refusal::turn_over(turn)).await?;
        }
        Ok(())
    }

    /// Begins a turn with the message that waits, when nothing else goes on. One that was meant for another turn is refused.
    pub(super) async fn next_held(&mut self) -> Result<(), Break> {
        while self.turn.is_none() && self.work.is_none() && !self.paused {
            let immediate = self.held.iter().position(|(m, _)| m.priority == MessagePriority::Immediate);
            let Some((message, reply)) = self.held.remove(immediate.unwrap_or(0)) else { break };
            match &message.expected_turn {
                Some(turn) => {
                    let refusal = Refusal::turn_over(turn);
                    reply.refuse(refusal).await?;
                }
                None => self.begin_turn(message.content.clone(), Some((message, reply))).await?,
            }
        }
        Ok(())
    }
}
