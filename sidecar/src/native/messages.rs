//! Messages: held until their turn, given to the agent, or refused once that turn is over (decisions 29, 30).

use pilothouse_agent::message::UserContent;
use pilothouse_agent::session::PromptOptions;
use pilothouse_domain::TurnId;
use pilothouse_domain::value::MessageImage;

use super::driver::{Driver, InjectingMessage};
use crate::adapter::{Message, MessageReply, Refusal};
use crate::kit::images::left_out;
use crate::kit::messages::{HeldMessage, refuse_late};
use crate::kit::turns::DriverExit;

impl Driver {
    pub(super) async fn message(&mut self, message: Message, reply: MessageReply) -> Result<(), DriverExit> {
        let Some((message, reply)) = refuse_late((message, reply), self.turn.as_ref()).await? else {
            return Ok(());
        };
        if self.is_owner_command(&message) {
            return self.run_owner_command(message, reply).await;
        }
        self.held.push((message, reply));
        if self.paused {
            return Ok(());
        }
        if self.turn.is_none() {
            return self.next_held().await;
        }
        if self.work.is_none() {
            // An exceeded quota has suspended the turn. A message resumes it.
            return self.deliver_messages().await;
        }
        // While the agent is held for its budget, the message waits for the continuation of the turn.
        Ok(())
    }

    /// Gives waiting messages to the running turn before the next model call.
    pub(super) async fn steer(&mut self) -> Result<(), DriverExit> {
        while let Some(message) = self.held.next_immediate() {
            self.steer_with(message).await?;
        }
        Ok(())
    }

    async fn steer_with(&mut self, (message, reply): HeldMessage) -> Result<(), DriverExit> {
        let options = self.injecting(&message, reply).await?;
        let given = self.session()?.steer(&message.content, options);
        given.map(drop).map_err(|e| DriverExit::agent(e.to_string()))
    }

    /// Continues the turn with the waiting messages: all immediate ones, or else the first one.
    pub(super) async fn deliver_messages(&mut self) -> Result<(), DriverExit> {
        let Some(mut last) = self.held.next() else { return self.resume_work() };
        while let Some(next) = self.held.next_immediate() {
            self.steer_with(std::mem::replace(&mut last, next)).await?;
        }
        let (last, reply) = last;
        let options = self.injecting(&last, reply).await?;
        self.prompt(last.content, options)
    }

    async fn injecting(
        &mut self,
        message: &Message,
        mut reply: MessageReply,
    ) -> Result<PromptOptions, DriverExit> {
        let images = self.load_images(&message.images).await?;
        reply.injecting().await?;
        let tag = message.id.to_string();
        self.injecting.push(InjectingMessage { tag: tag.clone(), reply });
        Ok(PromptOptions { tag: Some(tag), images, ..PromptOptions::default() })
    }

    /// Loads images for the conversation. A model that cannot see them gets a placeholder, and a later model the images.
    pub(super) async fn load_images(&self, images: &[MessageImage]) -> Result<Vec<UserContent>, DriverExit> {
        if images.is_empty() {
            return Ok(Vec::new());
        }
        let loaded = self.images.load(images, &self.events).await?;
        let model = self.session()?.state().model;
        if !loaded.is_empty() && !model.vision {
            let why = format!("the model {} cannot see images", model.name());
            self.events.emit(left_out(loaded.len(), &why)).await?;
        }
        let content = loaded
            .into_iter()
            .map(|it| UserContent::Image { mime_type: it.media_type.to_string(), data: it.base64 });
        Ok(content.collect())
    }

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
        let commands = &self.owner_command_tags;
        let (running, given): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.injecting).into_iter().partition(|given| commands.contains(&given.tag));
        self.injecting = running;
        for given in given {
            given.reply.refuse(Refusal::turn_over(turn)).await?;
        }
        Ok(())
    }

    /// If the agent is idle, begins a turn with the next message. Refuses messages that were meant for another turn.
    pub(super) async fn next_held(&mut self) -> Result<(), DriverExit> {
        while self.turn.is_none() && self.work.is_none() && !self.paused {
            let Some(message) = self.held.next() else { break };
            if let Some((message, reply)) = refuse_late(message, None).await? {
                let (text, images) = (message.content.clone(), message.images.clone());
                self.begin_turn(text, &images, Some((message, reply))).await?;
            }
        }
        Ok(())
    }
}
