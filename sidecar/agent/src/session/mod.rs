//! The agent (S1 5): a conversation on disk, and what is done with it.
//!
//! [`AgentSession`] is a handle: clones of it drive the same session, so that one task prompts while others steer,
//! pause (through the [`Governor`](crate::governor::Governor)) or abort. Everything that happens is told through the
//! channel that [`AgentSession::open`] gives, in order.

mod bash;
mod config;
mod metering;
mod queues;
mod shared;
mod state;
mod status;

use std::sync::Arc;

use pilothouse_domain::value::{CycleDirection, ThinkingLevel};
use tokio::sync::{mpsc, oneshot};

pub use self::config::{
    ContextSettings, FollowUpMode, PromptOptions, Queue, RetryPolicy, SessionConfig, Start, SteeringMode,
};
pub(crate) use self::queues::From;
pub(crate) use self::shared::{Shared, user_message, with_text};
use self::state::{CompactionRequest, Events, Run, State};
pub(crate) use self::state::{Prompt, now, result};
pub use self::status::{AgentState, CompactionResult, Prompted, Queued, SessionError};
use crate::event::{AgentOutcome, SessionEvent};
use crate::extension::CommandOutcome;
use crate::message::AgentMessage;
use crate::model::registry::ModelInfo;
use crate::resources::command;
use crate::run_loop::RunLoop;
use crate::tree::TreeError;

/// An agent with its conversation.
#[derive(Clone)]
pub struct AgentSession {
    shared: Arc<Shared>,
}

/// What a prompt turns out to be.
enum Given {
    Prompt(String),
    Done(String),
}

impl AgentSession {
    /// Takes up a conversation. A call that was cut off by a crash gets its result here, so that calls and results
    /// are paired. Blocks for as long as reading the file takes.
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

    /// Gives the agent a message and lets it work until it has nothing to do any more (S1 3). Messages that waited
    /// go before it. Dropping the future aborts as [`Self::abort`] does.
    pub async fn prompt(&self, text: &str, options: PromptOptions) -> Result<Prompted, SessionError> {
        let text = match self.command(text, &options).await? {
            Given::Prompt(text) => text,
            Given::Done(text) => return Ok(Prompted::Command(text)),
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

    /// Skills, templates and commands of extensions stand in the place of what names them (S1 6.3, 8).
    async fn command(&self, text: &str, options: &PromptOptions) -> Result<Given, SessionError> {
        if self.shared.state().closed {
            return Err(SessionError::Closed);
        }
        if !options.expand {
            return Ok(Given::Prompt(text.to_owned()));
        }
        let Some((name, arguments)) = command(text) else { return Ok(Given::Prompt(text.to_owned())) };
        Ok(match self.shared.config.extensions.command(name, arguments).await {
            Some(CommandOutcome::Done(text)) => Given::Done(text),
            Some(CommandOutcome::Prompt(text)) => Given::Prompt(text),
            None => Given::Prompt(self.shared.expanded(text)),
        })
    }

    /// Lets the agent go on without a new message: after a crash, a failure or when it was held, and when messages wait.
    /// [`SessionError::NothingToDo`] when the model has answered the last message.
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

    /// Runs the loop on a task of its own, so that it ends in order even when nobody waits for it any more.
    async fn work(&self, run: Run, prompt: Option<Prompt>, due: bool) -> AgentOutcome {
        let unless_done = run.cancel.clone().drop_guard();
        let run_loop = RunLoop::new(Arc::clone(&self.shared), run.cancel);
        let worked = tokio::spawn(run_loop.run(prompt, due)).await;
        unless_done.disarm();
        worked.unwrap_or_else(|error| self.crashed(&error))
    }

    /// The loop panicked, or its runtime ends: nobody must wait for it.
    fn crashed(&self, error: &tokio::task::JoinError) -> AgentOutcome {
        let outcome = AgentOutcome::Failed(format!("the agent stopped unexpectedly: {error}"));
        self.shared.end_run(outcome.clone()).unwrap_or(outcome)
    }

    /// A message for before the next call of the model; what is left of the batch is skipped (S1 3.4, ruling 40). It
    /// waits for the next prompt when the agent does nothing. `while_running` does not count.
    pub fn steer(&self, text: &str, options: PromptOptions) -> Result<(), SessionError> {
        self.enqueue(Queue::Steering, text, options)
    }

    /// A message for when the agent has nothing else to do (S1 3.4).
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

    /// Takes back everything that waits.
    pub fn take_queued(&self) -> Vec<Queued> {
        self.shared.state().take_queued(&self.shared.events)
    }

    /// Ends what the agent does, and returns when it does nothing any more: every call has its result then, and
    /// `AgentEnd` was told. What waits goes on waiting.
    pub async fn abort(&self) {
        let run = self.shared.state().run.clone();
        if let Some(run) = run {
            run.cancel.cancel();
            run.done.cancelled().await;
        }
    }

    /// Another model, from the next call on; as [`ModelRegistry::resolve`](crate::model::registry::ModelRegistry::resolve) takes it.
    pub fn set_model(&self, name: &str) -> Result<ModelInfo, SessionError> {
        let model = self.shared.config.registry.resolve(name)?;
        self.shared.state().choose(model, &self.shared.events)
    }

    /// The next or previous available model, from the next call on.
    pub fn cycle_model(&self, direction: CycleDirection) -> Result<ModelInfo, SessionError> {
        let mut state = self.shared.state();
        let model = self.shared.config.registry.cycle(&state.model, direction)?;
        state.choose(model, &self.shared.events)
    }

    /// How deeply it thinks, from the next call on. A model that cannot think does not get it.
    pub fn set_thinking_level(&self, level: ThinkingLevel) -> Result<(), SessionError> {
        self.shared.state().think(level, &self.shared.events)
    }

    /// Summarises the conversation. While the agent works, that happens before its next model call, and this returns then.
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

    /// A fresh conversation; its id.
    pub fn new_session(&self, parent: Option<&str>) -> Result<String, SessionError> {
        self.switch(Start::New { parent: parent.map(str::to_owned) })
    }

    /// Another conversation of the same folder, with its model and its thinking level; its id.
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

    /// A session of its own with the conversation up to and with this entry; its id. The meters go on (ruling 31).
    pub fn fork(&self, entry_id: &str) -> Result<String, SessionError> {
        let config = &self.shared.config;
        let mut state = self.shared.state();
        state.idle()?;
        let entry = state::entry(entry_id)?;
        let forked = state.tree.fork(&config.sessions, entry)?;
        let meters = state.meters.clone();
        state.switch(forked, &config.registry, &self.shared.events)?;
        state.meters = meters;
        state.keep_meters()?;
        Ok(state.tree.id().to_owned())
    }

    /// Goes back to this entry, on a branch of its own in the same session; what came after it stays in the tree. None: to
    /// before the first message.
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

    /// Bookmarks an entry; none takes the bookmark away (S1 9).
    pub fn label(&self, entry_id: &str, label: Option<&str>) -> Result<(), SessionError> {
        let mut state = self.shared.state();
        let entry = state::entry(entry_id)?;
        state.tree.append_label(entry, label)?;
        Ok(())
    }

    /// Where it stands.
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

    /// What its context consists of now.
    pub fn messages(&self) -> Vec<Arc<AgentMessage>> {
        self.shared.state().tree.context().messages
    }

    /// Waits until the disk has the conversation as it is now: what was said so far outlives a power loss then. It keeps
    /// neither the loop nor the runtime from working.
    pub async fn sync(&self) -> Result<(), SessionError> {
        let unsynced = self.shared.state().tree.unsynced()?;
        let Some(unsynced) = unsynced else { return Ok(()) };
        let file = self.state().file;
        tokio::task::spawn_blocking(|| unsynced.sync()).await.unwrap_or_else(|error| {
            Err(TreeError::Io { path: file, source: std::io::Error::other(error) })
        })?;
        Ok(())
    }

    /// Aborts, and lets nothing begin any more.
    pub async fn close(&self) {
        self.shared.state().closed = true;
        self.shared.closing.cancel();
        self.abort().await;
    }
}
