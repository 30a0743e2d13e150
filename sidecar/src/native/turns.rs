//! Turns: how they begin, what the agent works on in them, and how they end.

use pilothouse_agent::bash::UserCommand;
use pilothouse_agent::event::AgentOutcome;
use pilothouse_agent::session::{PromptOptions, Prompted, SessionError};
use pilothouse_domain::value::{MessageSource, SessionOutcome};
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::{AssistantContent, SessionEnd};
use serde_json::Value;
use tokio::task::JoinError;
use tokio_util::task::AbortOnDropHandle;

use super::driver::{Break, Driver, MessageGiven};
use super::tell;
use crate::adapter::{AdapterError, Message, MessageReply};

impl Driver {
    /// A turn begins: with a message, or with what the run was begun with.
    pub(super) async fn begin_turn(
        &mut self,
        text: String,
        message: Option<(Message, MessageReply)>,
    ) -> Result<(), Break> {
        let after = self.session()?.state().leaf;
        let turn_id = self.memory.begin_turn(after)?;
        let mut options = PromptOptions::default();
        let message_id = message.as_ref().map(|(message, _)| message.id);
        let source = message.as_ref().map(|(message, _)| message.source);
        if let Some((message, mut reply)) = message {
            reply.injecting().await?;
            options.tag = Some(message.id.to_string());
            self.giving.push(MessageGiven { tag: message.id.to_string(), reply });
        }
        self.events.emit(RawEvent::TurnStarted { turn_id: turn_id.clone(), message_id }).await?;
        self.turn = Some(turn_id);
        let of_owner = source == Some(MessageSource::User);
        if of_owner && UserCommand::parse(&text).is_some() {
            self.execute(text)
        } else {
            self.prompt(text, options)
        }
    }

    /// Runs a command of the owner's, `!command` or `!!command` (ruling 41).
    fn execute(&mut self, text: String) -> Result<(), Break> {
        let session = self.session()?.clone();
        let work = async move {
            let ran = session.execute_bash(&text).await;
            ran.map(|_| Prompted::Command(String::new()))
        };
        self.executing = true;
        self.work = Some(AbortOnDropHandle::new(tokio::spawn(work)));
        Ok(())
    }

    /// Lets the agent work on a text.
    pub(super) fn prompt(&mut self, text: String, options: PromptOptions) -> Result<(), Break> {
        let session = self.session()?.clone();
        let work = async move { session.prompt(&text, options).await };
        self.work = Some(AbortOnDropHandle::new(tokio::spawn(work)));
        Ok(())
    }

    /// Lets the agent go on without a new text.
    pub(super) fn go_on(&mut self) -> Result<(), Break> {
        let session = self.session()?.clone();
        let work = async move { session.resume().await.map(Prompted::Ended) };
        self.work = Some(AbortOnDropHandle::new(tokio::spawn(work)));
        Ok(())
    }

    pub(super) async fn work_ended(
        &mut self,
        ended: Result<Result<Prompted, SessionError>, JoinError>,
    ) -> Result<(), Break> {
        self.work = None;
        self.asked = None;
        self.drain().await?;
        if std::mem::take(&mut self.executing) {
            // It is in the conversation, as a command.
            self.keep().await?;
            for given in std::mem::take(&mut self.giving) {
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
            // Its work is another's, which goes on.
            Ok(Prompted::Queued) => {}
            Err(SessionError::Bash(error)) => {
                self.events.emit(tell::notice("command_failed", error, Value::Null)).await?;
                self.complete(SessionOutcome::Completed).await?;
            }
            Err(SessionError::NothingToDo) => self.complete(SessionOutcome::Completed).await?,
            Err(error) => return self.failed("execution_error", error.to_string()).await,
        }
        self.settle_pause().await?;
        self.next_held().await
    }

    async fn outcome(&mut self, outcome: AgentOutcome) -> Result<(), Break> {
        match outcome {
            AgentOutcome::Completed | AgentOutcome::Held(_) if self.has_immediate() => {
                // The turn goes on; while it is paused, when that is over.
                if self.paused { Ok(()) } else { self.go_on_with_messages().await }
            }
            AgentOutcome::Completed => self.complete(SessionOutcome::Completed).await,
            AgentOutcome::MaxTurns => self.complete(SessionOutcome::MaxIterations).await,
            AgentOutcome::Held(_) => self.complete(SessionOutcome::ExecutionError).await,
            // Whoever aborts it sees to the rest.
            AgentOutcome::Aborted => Ok(()),
            AgentOutcome::QuotaExceeded { message, reset_at } => {
                // The turn is open, and goes on when it is resumed or spoken to (ruling 39).
                let quota = RawEvent::QuotaExceeded { message: Some(message), reset_at };
                Ok(self.events.emit(quota).await?)
            }
            AgentOutcome::ContextExhausted => {
                self.events.emit(RawEvent::ContextExhausted {}).await?;
                self.end(false, "context_exhausted", None).await
            }
            AgentOutcome::Failed(message) => self.failed("model_error", message).await,
        }
    }

    /// The turn is over.
    async fn complete(&mut self, outcome: SessionOutcome) -> Result<(), Break> {
        let Some(turn_id) = self.turn.take() else { return Ok(()) };
        self.setup.requests.close();
        self.refuse_given(&turn_id).await?;
        self.keep().await?;
        let output = self.setup.submitted.take();
        Ok(self.events.emit(RawEvent::TurnCompleted { turn_id, output, outcome }).await?)
    }

    async fn failed(&mut self, reason: &str, message: String) -> Result<(), Break> {
        self.end(true, reason, Some(message)).await
    }

    async fn end(&mut self, is_error: bool, reason: &str, message: Option<String>) -> Result<(), Break> {
        if !is_error {
            self.keep().await?;
        }
        let output = self.setup.submitted.take();
        let end = SessionEnd { is_error, reason: reason.into(), message, output };
        self.events.emit(RawEvent::SessionEnd(end)).await?;
        Err(Break::Over)
    }

    /// Ends what the agent does, and tells what came of it.
    pub(super) async fn abort(&mut self) -> Result<(), Break> {
        self.setup.requests.close();
        self.asked = None;
        self.compacting.abort_all();
        let session = self.session()?.clone();
        session.abort().await;
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

    pub(super) async fn stop(&mut self) -> Result<(), Break> {
        self.abort().await?;
        Err(Break::Over)
    }
}
