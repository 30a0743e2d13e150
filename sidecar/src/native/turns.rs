//! Turns: how they begin, what work they contain, and how they end.

use pilothouse_agent::bash::UserCommand;
use pilothouse_agent::event::AgentOutcome;
use pilothouse_agent::session::{PromptOptions, Prompted, SessionError};
use pilothouse_domain::value::{MessageImage, MessageSource, SessionOutcome};
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::{AssistantContent, SessionEnd};
use serde_json::Value;
use tokio::task::{JoinError, JoinSet};
use tokio_util::task::AbortOnDropHandle;

use super::driver::{Driver, InjectingMessage};
use crate::adapter::AdapterError;
use crate::kit::handoff;
use crate::kit::messages::HeldMessage;
use crate::kit::notices::detailed_notice;
use crate::kit::turns::DriverExit;

impl Driver {
    /// Begins a turn with a message or with the run's prompt.
    pub(super) async fn begin_turn(
        &mut self,
        text: String,
        images: &[MessageImage],
        message: Option<HeldMessage>,
    ) -> Result<(), DriverExit> {
        let message_id = message.as_ref().map(|(message, _)| message.id);
        let source = message.as_ref().map(|(message, _)| message.source);
        let is_command = source == Some(MessageSource::User) && UserCommand::parse(&text).is_some();
        let mut options = PromptOptions::default();
        if !is_command {
            options.images = self.load_images(images).await?;
        }
        let after = self.session()?.state().leaf;
        let turn_id = self.saved_state.begin_turn(after)?;
        if let Some((message, mut reply)) = message {
            reply.injecting().await?;
            options.tag = Some(message.id.to_string());
            self.injecting.push(InjectingMessage { tag: message.id.to_string(), reply });
        }
        let mut events = vec![RawEvent::TurnStarted { turn_id: turn_id.clone(), message_id }];
        events.extend(self.saved_state.conversations_to_choose());
        self.events.emit_all(events).await?;
        self.turn = Some(turn_id);
        if is_command { self.execute(text) } else { self.prompt(text, options) }
    }

    /// Runs an owner's command, `!command` or `!!command` (decision 41).
    fn execute(&mut self, text: String) -> Result<(), DriverExit> {
        let session = self.session()?.clone();
        let work = async move {
            let ran = session.execute_bash(&text).await;
            ran.map(|_| Prompted::Command(String::new()))
        };
        self.executing = true;
        self.work = Some(AbortOnDropHandle::new(tokio::spawn(work)));
        Ok(())
    }

    pub(super) fn prompt(&mut self, text: String, options: PromptOptions) -> Result<(), DriverExit> {
        let session = self.session()?.clone();
        let work = async move { session.prompt(&text, options).await };
        self.work = Some(AbortOnDropHandle::new(tokio::spawn(work)));
        Ok(())
    }

    /// Continues the agent's work without a new text.
    pub(super) fn resume_work(&mut self) -> Result<(), DriverExit> {
        let session = self.session()?.clone();
        let work = async move { session.resume().await.map(Prompted::Ended) };
        self.work = Some(AbortOnDropHandle::new(tokio::spawn(work)));
        Ok(())
    }

    pub(super) async fn work_ended(
        &mut self,
        ended: Result<Result<Prompted, SessionError>, JoinError>,
    ) -> Result<(), DriverExit> {
        self.work = None;
        self.held_request = None;
        self.drain().await?;
        if std::mem::take(&mut self.executing) {
            // The message is in the conversation, as a command.
            self.sync_conversation().await?;
            for given in std::mem::take(&mut self.injecting) {
                given.reply.injected().await?;
            }
        }
        let due = self.logs.due();
        self.events.emit_all(due).await?;
        let ended = ended.map_err(|_| AdapterError::Agent("its loop panicked".into()))?;
        match ended {
            Ok(Prompted::Ended(outcome)) => self.outcome(outcome).await?,
            Ok(Prompted::Command(said)) => {
                if !said.is_empty() {
                    let content = AssistantContent::Text { text: said.into() };
                    let said = RawEvent::AssistantMessage { content, turn_id: self.turn.clone() };
                    self.events.emit(said).await?;
                }
                self.complete(SessionOutcome::Completed).await?;
            }
            // The running work processes the text.
            Ok(Prompted::Queued) => {}
            Err(SessionError::Bash(error)) => {
                self.events.emit(detailed_notice("command_failed", error, Value::Null)).await?;
                self.complete(SessionOutcome::Completed).await?;
            }
            Err(SessionError::NothingToDo) => self.complete(SessionOutcome::Completed).await?,
            Err(error) => return self.failed("execution_error", error.to_string()).await,
        }
        self.confirm_pause().await?;
        self.next_held().await
    }

    async fn outcome(&mut self, outcome: AgentOutcome) -> Result<(), DriverExit> {
        match outcome {
            AgentOutcome::Completed | AgentOutcome::Held(_) if self.held.has_immediate() => {
                // The turn continues, if needed after the pause.
                if self.paused { Ok(()) } else { self.deliver_messages().await }
            }
            AgentOutcome::Completed => self.complete(SessionOutcome::Completed).await,
            AgentOutcome::MaxTurns => self.complete(SessionOutcome::MaxIterations).await,
            AgentOutcome::Held(_) => self.complete(SessionOutcome::ExecutionError).await,
            // The caller of the abort handles it.
            AgentOutcome::Aborted => Ok(()),
            AgentOutcome::QuotaExceeded { message, reset_at } => {
                // The turn stays open. A resume or a message continues it (decision 39).
                let quota = RawEvent::QuotaExceeded { message: Some(message), reset_at };
                Ok(self.events.emit(quota).await?)
            }
            AgentOutcome::Unavailable { message, retry_at } => {
                // The turn stays open, too.
                let unavailable = RawEvent::ModelUnavailable { message: Some(message), retry_at };
                Ok(self.events.emit(unavailable).await?)
            }
            AgentOutcome::ContextExhausted => {
                self.events.emit(RawEvent::ContextExhausted {}).await?;
                self.end(false, handoff::EXHAUSTED, None).await
            }
            AgentOutcome::Failed(message) => self.failed("model_error", message).await,
        }
    }

    async fn complete(&mut self, outcome: SessionOutcome) -> Result<(), DriverExit> {
        let Some(turn_id) = self.turn.take() else { return Ok(()) };
        self.setup.requests.close();
        self.stop_commands().await;
        self.refuse_given(&turn_id).await?;
        self.sync_conversation().await?;
        let output = self.setup.submitted.take();
        Ok(self.events.emit(RawEvent::TurnCompleted { turn_id, output, outcome }).await?)
    }

    async fn failed(&mut self, reason: &str, message: String) -> Result<(), DriverExit> {
        self.end(true, reason, Some(message)).await
    }

    async fn end(&mut self, is_error: bool, reason: &str, message: Option<String>) -> Result<(), DriverExit> {
        self.stop_commands().await;
        if !is_error {
            self.sync_conversation().await?;
        }
        let output = self.setup.submitted.take();
        let end = SessionEnd { is_error, reason: reason.into(), message, output };
        self.events.emit(RawEvent::SessionEnd(end)).await?;
        Err(DriverExit::Over)
    }

    /// Ends what runs in the background. Held work, which its driver may continue, has left it running.
    async fn stop_commands(&self) {
        if let Ok(session) = self.session() {
            session.stop_commands().await;
        }
    }

    /// Aborts the agent's work and publishes its remaining events.
    pub(super) async fn abort(&mut self) -> Result<(), DriverExit> {
        self.setup.requests.close();
        self.held_request = None;
        self.permitting = JoinSet::new();
        self.compacting.abort_all();
        // Ends the commands.
        self.owner_commands.shutdown().await;
        self.owner_command_tags.clear();
        let session = self.session()?.clone();
        session.abort().await;
        session.stop_commands().await;
        if let Some(work) = self.work.take() {
            if std::mem::take(&mut self.executing) {
                work.abort();
            }
            let _ = work.await;
        }
        self.drain().await?;
        let due = self.logs.due();
        self.events.emit_all(due).await?;
        self.setup.withdraw();
        Ok(())
    }

    pub(super) async fn stop(&mut self) -> Result<(), DriverExit> {
        self.abort().await?;
        Err(DriverExit::Over)
    }
}
