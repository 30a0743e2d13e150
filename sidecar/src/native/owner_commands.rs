//! Commands that the owner gives during a turn: `!command`, and slash commands of extensions. They run in parallel to the agent.

use pilothouse_agent::bash::UserCommand;
use pilothouse_agent::extension::CommandOutcome;
use pilothouse_agent::session::PromptOptions;
use pilothouse_domain::value::{MessagePriority, MessageSource};
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::AssistantContent;
use serde_json::Value;

use super::driver::{Driver, InjectingMessage, OwnerCommandResult};
use crate::adapter::{Message, MessageReply, Refusal};
use crate::kit::notices::detailed_notice;
use crate::kit::turns::DriverExit;

impl Driver {
    /// Whether the message is a command for the running turn.
    pub(super) fn is_owner_command(&self, message: &Message) -> bool {
        let (text, session) = (&message.content, self.session.as_ref());
        self.work.is_some()
            && !self.paused
            && message.source == MessageSource::User
            && message.priority == MessagePriority::Immediate
            && (UserCommand::parse(text).is_some()
                || session.is_some_and(|session| session.is_extension_command(text)))
    }

    pub(super) async fn run_owner_command(
        &mut self,
        message: Message,
        mut reply: MessageReply,
    ) -> Result<(), DriverExit> {
        reply.injecting().await?;
        let tag = message.id.to_string();
        self.injecting.push(InjectingMessage { tag: tag.clone(), reply });
        self.owner_command_tags.insert(tag.clone());
        let (session, text) = (self.session()?.clone(), message.content);
        self.owner_commands.spawn(async move {
            let result = if UserCommand::parse(&text).is_some() {
                OwnerCommandResult::Shell(session.execute_bash(&text).await)
            } else {
                OwnerCommandResult::Extension(session.extension_command(&text).await)
            };
            (tag, result)
        });
        Ok(())
    }

    pub(super) async fn owner_command_finished(
        &mut self,
        (tag, result): (String, OwnerCommandResult),
    ) -> Result<(), DriverExit> {
        self.owner_command_tags.remove(&tag);
        match result {
            OwnerCommandResult::Shell(Ok(_)) => self.drain().await?,
            OwnerCommandResult::Shell(Err(error)) => {
                let failed = detailed_notice("command_failed", error.to_string(), Value::Null);
                self.events.emit(failed).await?;
            }
            OwnerCommandResult::Extension(Some(CommandOutcome::Prompt(text))) => {
                return self.steer_with_owner_command(tag, &text).await;
            }
            OwnerCommandResult::Extension(Some(CommandOutcome::Done(text))) if !text.is_empty() => {
                let content = AssistantContent::Text { text: text.into() };
                self.events.emit(RawEvent::AssistantMessage { content, turn_id: self.turn.clone() }).await?;
            }
            OwnerCommandResult::Extension(_) => {}
        }
        self.injected(&tag).await?;
        self.confirm_pause().await
    }

    /// Gives the agent the prompt that a command of an extension returned.
    async fn steer_with_owner_command(&mut self, tag: String, text: &str) -> Result<(), DriverExit> {
        if self.work.is_none() {
            let given = self.injecting.iter().position(|given| given.tag == tag);
            let Some(given) = given.map(|at| self.injecting.remove(at)) else { return Ok(()) };
            return Ok(given.reply.refuse(Refusal::invalid("the turn ended before the command")).await?);
        }
        let options = PromptOptions { expand: false, tag: Some(tag), ..PromptOptions::default() };
        self.session()?.steer(text, options).map_err(|e| DriverExit::agent(e.to_string()))?;
        self.confirm_pause().await
    }
}
