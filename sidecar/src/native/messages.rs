//! Messages: held until their turn, given to the agent, or refused when that turn is over (decisions 29, 30).

use pilothouse_agent::session::PromptOptions;
use pilothouse_domain::TurnId;
use pilothouse_domain::value::MessagePriority;

use super::driver::{Driver, DriverExit, InjectingMessage};
use crate::adapter::{Message, MessageReply, Refusal};

impl Driver {
    /// Handles an incoming message.
    pub(super) async fn message(&mut self, message: Message, reply: MessageReply) -> Result<(), DriverExit> {
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
            // The turn is suspended by an exceeded quota. A message resumes it.
            return self.deliver_messages().await;
        }
        // While the agent is held for its budget, the message waits. The turn will continue with it.
        Ok(())
    }

    /// Whether a message is waiting for the running turn.
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

    /// Gives waiting messages to the running turn before the next model call.
    pub(super) async fn steer(&mut self) -> Result<(), DriverExit> {
        for (message, reply) in self.take_immediate() {
            let options = self.injecting(&message, reply).await?;
            self.session()?
                .steer(&message.content, options)
                .map_err(|e| crate::adapter::AdapterError::Agent(e.to_string()))?;
        }
        Ok(())
    }

    /// Continues the turn with the waiting messages: all immediate ones, or else the first one.
    pub(super) async fn deliver_messages(&mut self) -> Result<(), DriverExit> {
        let mut now = self.take_immediate();
        if now.is_empty() {
            now.extend(self.held.pop_front());
        }
        let Some((last, last_reply)) = now.pop() else { return self.resume_work() };
        for (message, reply) in now {
            let options = self.injecting(&message, reply).await?;
            self.session()?
                .steer(&message.content, options)
                .map_err(|e| crate::adapter::AdapterError::Agent(e.to_string()))?;
        }
        let options = self.injecting(&last, last_reply).await?;
        self.prompt(last.content, options)
    }

    async fn injecting(
        &mut self,
        message: &Message,
        mut reply: MessageReply,
    ) -> Result<PromptOptions, DriverExit> {
        reply.injecting().await?;
        let tag = message.id.to_string();
        self.injecting.push(InjectingMessage { tag: tag.clone(), reply });
        Ok(PromptOptions { tag: Some(tag), ..PromptOptions::default() })
    }

    /// Acknowledges a message that is now in the conversation.
    pub(super) async fn injected(&mut self, tag: &str) -> Result<(), DriverExit> {
        if let Some(at) = self.injecting.iter().position(|given| given.tag == tag) {
            self.sync_conversation().await?;
            self.injecting.remove(at).reply.injected().await?;
        }
        Ok(())
    }

    /// Refuses messages that were given to the agent and will not reach the conversation.
    pub(super) async fn refuse_given(&mut self, turn: &TurnId) -> Result<(), DriverExit> {
        self.session()?.take_queued();
        for given in std::mem::take(&mut self.injecting) {
            given.reply.refuse(Refusal::turn_over(turn)).await?;
        }
        Ok(())
    }

    /// Begins a turn with the next waiting message if the agent is idle. Refuses messages that were meant for another
    /// turn.
    pub(super) async fn next_held(&mut self) -> Result<(), DriverExit> {
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
