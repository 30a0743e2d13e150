//! The agent (S1 5): a conversation on disk, and the operations on it.
//!
//! [`AgentSession`] is a handle. Its clones drive the same session, so that one task can prompt while others steer,
//! pause (through the [`Governor`](crate::governor::Governor)) or abort. [`AgentSession::open`] returns the channel
//! of ordered events.

mod bash;
mod compaction;
pub(crate) mod config;
mod metering;
pub(crate) mod queues;
mod run_loop;
pub(crate) mod shared;
pub(crate) mod state;
pub(crate) mod status;

use std::sync::Arc;
use std::time::Duration;

use pilothouse_domain::value::{CycleDirection, ThinkingLevel};
use tokio::sync::{mpsc, oneshot};

pub use self::config::{
    ContextSettings, FollowUpMode, PromptOptions, Queue, RetryPolicy, SessionConfig, Start, SteeringMode,
};
use self::run_loop::RunLoop;
use self::shared::Shared;
use self::state::{CompactionRequest, Prompt, Run, State};
pub use self::status::{AgentState, CompactionResult, Prompted, Queued, SessionError};
use crate::event::{AgentOutcome, Events, SessionEvent};
use crate::extension::CommandOutcome;
use crate::message::{AgentMessage, user_message};
use crate::model::info::ModelInfo;
use crate::resources::command;
use crate::tree::TreeError;

const FULL_DISK_RETRY: Duration = Duration::from_millis(500);

#[derive(Clone)]
pub struct AgentSession {
    shared: Arc<Shared>,
}

/// How a prompt was interpreted.
enum ParsedPrompt {
    Prompt(String),
    Done(String),
}

impl AgentSession {
    /// Opens a conversation. Adds the result of a call that a crash interrupted, so that calls and results are paired.
    /// Blocks while the file is read.
    pub fn open(
        config: SessionConfig,
        start: Start,
    ) -> Result<(Self, mpsc::UnboundedReceiver<SessionEvent>), SessionError> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let events = Events(sender);
        let tree = state::open_tree(&config.sessions, &config.cwd, start)?;
        let state = State::new(tree, &config.registry, config.model.as_deref(), config.thinking, &events)?;
        let shared = Shared::new(config, events, state);
        Ok((Self { shared: Arc::new(shared) }, receiver))
    }

    /// Gives the agent a message and lets it work until no work is left (S1 3). Queued messages go first. Dropping the
    /// future aborts like [`Self::abort`].
    pub async fn prompt(&self, text: &str, options: PromptOptions) -> Result<Prompted, SessionError> {
        let text = match self.command(text, &options).await? {
            ParsedPrompt::Prompt(text) => text,
            ParsedPrompt::Done(text) => return Ok(Prompted::Command(text)),
        };
        let message = user_message(&text, options.images);
        let run = {
            let mut state = self.shared.state();
            match (state.claim(), options.while_running) {
                (Ok(run), _) => run,
                (Err(SessionError::Busy), Some(queue)) => {
                    state.enqueue(Queued { queue, message, tag: options.tag }, &self.shared.events);
                    return Ok(Prompted::Queued);
                }
                (Err(error), _) => return Err(error),
            }
        };
        let prompt = Prompt { message, tag: options.tag };
        Ok(Prompted::Ended(self.work(run, Some(prompt), false).await))
    }

    /// Expands skills and templates, and runs commands of extensions (S1 6.3, 8).
    async fn command(&self, text: &str, options: &PromptOptions) -> Result<ParsedPrompt, SessionError> {
        if self.shared.state().closed {
            return Err(SessionError::Closed);
        }
        if !options.expand {
            return Ok(ParsedPrompt::Prompt(text.to_owned()));
        }
        let Some((name, arguments)) = command(text) else { return Ok(ParsedPrompt::Prompt(text.to_owned())) };
        Ok(match self.shared.config.extensions.command(name, arguments).await {
            Some(CommandOutcome::Done(text)) => ParsedPrompt::Done(text),
            Some(CommandOutcome::Prompt(text)) => ParsedPrompt::Prompt(text),
            None => ParsedPrompt::Prompt(self.shared.expanded(text)),
        })
    }

    /// Whether the text is a slash command of an extension.
    pub fn is_extension_command(&self, text: &str) -> bool {
        let commands = self.shared.config.extensions.commands();
        command(text).is_some_and(|(name, _)| commands.iter().any(|command| command.name == name))
    }

    /// Runs a slash command of an extension, even while the agent is working. `None` if no extension has it.
    pub async fn extension_command(&self, text: &str) -> Option<CommandOutcome> {
        let (name, arguments) = command(text)?;
        self.shared.config.extensions.command(name, arguments).await
    }

    /// Continues without a new message: after a crash, a failure, or a stop by the governor, or with queued messages.
    /// Fails with [`SessionError::NothingToDo`] if the model has answered the last message.
    pub async fn resume(&self) -> Result<AgentOutcome, SessionError> {
        let (run, due) = {
            let mut state = self.shared.state();
            let messages = state.view().for_model();
            let last = messages.last().map(|message| &**message);
            let due = matches!(last, Some(AgentMessage::User(_) | AgentMessage::ToolResult(_)));
            if !due && !state.waits() {
                return Err(SessionError::NothingToDo);
            }
            (state.claim()?, due)
        };
        Ok(self.work(run, None, due).await)
    }

    /// On a separate task, so that the loop completes even if the caller's future is dropped.
    async fn work(&self, run: Run, prompt: Option<Prompt>, due: bool) -> AgentOutcome {
        let unless_done = run.cancel.clone().drop_guard();
        let run_loop = RunLoop::new(Arc::clone(&self.shared), run.cancel);
        let worked = tokio::spawn(run_loop.run(prompt, due)).await;
        unless_done.disarm();
        worked.unwrap_or_else(|error| self.crashed(&error))
    }

    /// Ends the run after a panic of the loop or the end of the runtime, so that no caller waits forever.
    fn crashed(&self, error: &tokio::task::JoinError) -> AgentOutcome {
        let outcome = AgentOutcome::Failed(format!("the agent stopped unexpectedly: {error}"));
        self.shared.end_run(outcome.clone()).unwrap_or(outcome)
    }

    /// Adds a message before the next model call, and skips the remaining tool calls (S1 3.4, decision 40). While the
    /// agent is idle, the message waits for the next prompt. Ignores `while_running`.
    pub fn steer(&self, text: &str, options: PromptOptions) -> Result<(), SessionError> {
        self.enqueue(Queue::Steering, text, options)
    }

    /// Adds a message for the time when the agent has no other work (S1 3.4).
    pub fn follow_up(&self, text: &str, options: PromptOptions) -> Result<(), SessionError> {
        self.enqueue(Queue::FollowUp, text, options)
    }

    fn enqueue(&self, queue: Queue, text: &str, options: PromptOptions) -> Result<(), SessionError> {
        let text = if options.expand { self.shared.expanded(text) } else { text.to_owned() };
        let message = user_message(&text, options.images);
        let mut state = self.shared.state();
        if state.closed {
            return Err(SessionError::Closed);
        }
        state.enqueue(Queued { queue, message, tag: options.tag }, &self.shared.events);
        Ok(())
    }

    /// Removes and returns all queued messages.
    pub fn take_queued(&self) -> Vec<Queued> {
        self.shared.state().take_queued(&self.shared.events)
    }

    /// Ends the agent's work. On return, every call has a result, `AgentEnd` was emitted and no work is running. Queued
    /// messages stay queued.
    pub async fn abort(&self) {
        let run = self.shared.state().run.clone();
        if let Some(run) = run {
            run.cancel.cancel();
            run.done.cancelled().await;
        }
    }

    /// Applies from the next call on. Accepts the names of
    /// [`ModelRegistry::resolve`](crate::model::registry::ModelRegistry::resolve).
    pub fn set_model(&self, name: &str) -> Result<ModelInfo, SessionError> {
        let model = self.shared.config.registry.resolve(name)?;
        self.shared.state().choose(model, &self.shared.events)
    }

    /// Selects the next or previous available model from the next call on.
    pub fn cycle_model(&self, direction: CycleDirection) -> Result<ModelInfo, SessionError> {
        let mut state = self.shared.state();
        let model = self.shared.config.registry.cycle(&state.model, direction)?;
        state.choose(model, &self.shared.events)
    }

    /// Applies from the next call on. Has no effect on models that cannot think.
    pub fn set_thinking_level(&self, level: ThinkingLevel) -> Result<(), SessionError> {
        self.shared.state().think(level, &self.shared.events)
    }

    /// Compacts the conversation, before the next model call if the agent is working, and returns afterwards.
    pub async fn compact(&self, instructions: Option<&str>) -> Result<CompactionResult, SessionError> {
        let (reply, result) = oneshot::channel();
        let run = {
            let mut state = self.shared.state();
            let run = match state.claim() {
                Ok(run) => Some(run),
                Err(SessionError::Busy) => None,
                Err(error) => return Err(error),
            };
            let instructions = instructions.map(str::to_owned);
            state.compactions.push(CompactionRequest { instructions, reply });
            run
        };
        if let Some(run) = run {
            self.work(run, None, false).await;
        }
        result
            .await
            .unwrap_or_else(|_| Err(SessionError::Compaction("the agent was stopped before it".into())))
    }

    /// Returns the conversation's id.
    pub fn new_session(&self, parent: Option<&str>) -> Result<String, SessionError> {
        self.switch(Start::New { parent: parent.map(str::to_owned) })
    }

    /// In the same folder. Also restores the conversation's model and thinking level. Returns its id.
    pub fn switch_session(&self, session_id: &str) -> Result<String, SessionError> {
        if self.shared.state().tree.id() == session_id {
            return Ok(session_id.to_owned());
        }
        let file = state::file_of(&self.shared.config.sessions, session_id)?;
        self.switch(Start::File(file))
    }

    fn switch(&self, start: Start) -> Result<String, SessionError> {
        let config = &self.shared.config;
        let mut state = self.shared.state();
        state.idle()?;
        let tree = state::open_tree(&config.sessions, &config.cwd, start)?;
        state.switch(tree, &config.registry, &self.shared.events)?;
        Ok(state.tree.id().to_owned())
    }

    /// Creates a session with the conversation up to and including this entry. Returns its id. The totals continue
    /// (decision 31).
    pub fn fork(&self, entry_id: &str) -> Result<String, SessionError> {
        let config = &self.shared.config;
        let mut state = self.shared.state();
        state.idle()?;
        let entry = state::entry(entry_id)?;
        let forked = state.tree.fork(&config.sessions, entry)?;
        let meters = state.meters.clone();
        state.switch(forked, &config.registry, &self.shared.events)?;
        state.meters = meters;
        state.store_meters()?;
        Ok(state.tree.id().to_owned())
    }

    /// Resets to this entry, on a new branch of the same session. Later entries stay in the tree. `None`: to before the
    /// first message.
    pub fn branch(&self, entry_id: Option<&str>) -> Result<(), SessionError> {
        let mut state = self.shared.state();
        state.idle()?;
        match entry_id {
            Some(id) => {
                let entry = state::entry(id)?;
                state.tree.branch(entry)?;
            }
            None => state.tree.reset_leaf()?,
        }
        state.restore(&self.shared.config.registry, &self.shared.events)
    }

    /// `None` removes the label (S1 9).
    pub fn label(&self, entry_id: &str, label: Option<&str>) -> Result<(), SessionError> {
        let mut state = self.shared.state();
        let entry = state::entry(entry_id)?;
        state.tree.append_label(entry, label)?;
        Ok(())
    }

    pub fn state(&self) -> AgentState {
        let mut state = self.shared.state();
        let (messages, context_tokens) = (state.view().messages(), state.context_tokens().value());
        AgentState {
            session_id: state.tree.id().to_owned(),
            file: state.tree.file().to_owned(),
            leaf: state.tree.leaf().map(|id| id.to_string()),
            running: state.run.is_some(),
            model: state.model.clone(),
            thinking: state.thinking,
            messages,
            context_tokens,
            steering: state.steering.len(),
            follow_up: state.follow_up.len(),
            meters: state.meters.clone(),
        }
    }

    pub fn messages(&self) -> Vec<Arc<AgentMessage>> {
        self.shared.state().tree.context().messages
    }

    /// Waits until the conversation is durable on disk, without blocking the loop or the runtime. While the disk is
    /// full, waits for space.
    pub async fn sync(&self) -> Result<(), SessionError> {
        loop {
            match self.sync_now().await {
                Err(SessionError::Tree(error)) if error.is_disk_full() => {
                    tokio::time::sleep(FULL_DISK_RETRY).await;
                }
                outcome => return outcome,
            }
        }
    }

    async fn sync_now(&self) -> Result<(), SessionError> {
        let unsynced = self.shared.state().tree.unsynced()?;
        let Some(unsynced) = unsynced else { return Ok(()) };
        let file = self.state().file;
        tokio::task::spawn_blocking(|| unsynced.sync()).await.unwrap_or_else(|error| {
            Err(TreeError::Io { path: file, source: std::io::Error::other(error) })
        })?;
        Ok(())
    }

    /// Aborts, and prevents further work.
    pub async fn close(&self) {
        self.shared.state().closed = true;
        self.shared.closing.cancel();
        self.abort().await;
        self.stop_commands().await;
    }
}
