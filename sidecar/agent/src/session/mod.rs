//! The agent (S1 5): a conversation on disk, and what is done with it.
//!
//! [`AgentSession`] is a handle: clones of it drive the same session, so that one task prompts while others steer,
//! pause (through the [`Governor`](crate::governor::Governor)) or abort. Everything that happens is told through the
//! channel that [`AgentSession::open`] gives, in order.

mod config;

use std::path::PathBuf;

use pilothouse_domain::value::{CycleDirection, ThinkingLevel};
use tokio::sync::mpsc;

pub use self::config::{
    ContextSettings, FollowUpMode, PromptOptions, Queue, RetryPolicy, SessionConfig, Start, SteeringMode,
};
use crate::event::{AgentOutcome, SessionEvent};
use crate::message::{AgentMessage, BashExecution};
use crate::meter::Meters;
use crate::model::registry::{ModelInfo, RegistryError};

/// An agent with its conversation.
#[derive(Clone)]
pub struct AgentSession {}

/// Why something cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// It needs an agent that does nothing at the moment.
    #[error("the agent is working")]
    Busy,
    /// The session was closed.
    #[error("the session is closed")]
    Closed,
    /// There is nothing to go on with.
    #[error("the conversation has nothing to go on with")]
    NothingToDo,
    /// The model cannot be used.
    #[error(transparent)]
    Model(#[from] RegistryError),
    /// The conversation could not be summarised.
    #[error("the conversation could not be summarised: {0}")]
    Compaction(String),
    /// The session's file could not be read or written.
    #[error("the session's file: {0}")]
    Tree(String),
}

/// What became of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompted {
    /// The agent worked on it until it had nothing to do any more.
    Ended(AgentOutcome),
    /// It waits in a queue.
    Queued,
    /// It was a command of an extension (S1 8), which did this.
    Command(String),
}

/// A summary that takes the place of what it summarises (S1 5, `Compact`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactionResult {
    /// The summary.
    pub summary: String,
    /// The first entry that it does not replace.
    pub first_kept: String,
    /// Tokens before it.
    pub tokens_before: u64,
}

/// A message that waits.
#[derive(Debug, Clone, PartialEq)]
pub struct Queued {
    /// In which queue.
    pub queue: Queue,
    /// The message.
    pub message: AgentMessage,
    /// As in [`PromptOptions::tag`].
    pub tag: Option<String>,
}

/// Where an agent stands (S1 5, `State`).
#[derive(Debug, Clone, PartialEq)]
pub struct AgentState {
    /// The session's id.
    pub session_id: String,
    /// Its file.
    pub file: PathBuf,
    /// The entry that the next one follows.
    pub leaf: Option<String>,
    /// Whether it works.
    pub running: bool,
    /// The model that answers.
    pub model: ModelInfo,
    /// How deeply it thinks.
    pub thinking: ThinkingLevel,
    /// Messages in its context.
    pub messages: usize,
    /// Tokens in its context, as far as known.
    pub context_tokens: u64,
    /// Steering messages that wait.
    pub steering: usize,
    /// Follow-ups that wait.
    pub follow_up: usize,
    /// What it took so far.
    pub meters: Meters,
}

#[allow(
    clippy::todo,
    clippy::unused_async,
    clippy::unused_self,
    unused_variables,
    clippy::needless_pass_by_value
)]
impl AgentSession {
    /// Takes up a conversation. A call that was cut off by a crash gets its result here, so that calls and results
    /// are paired. Blocks for as long as reading the file takes.
    pub fn open(
        config: SessionConfig,
        start: Start,
    ) -> Result<(Self, mpsc::UnboundedReceiver<SessionEvent>), SessionError> {
        todo!()
    }

    /// Gives the agent a message and lets it work until it has nothing to do any more (S1 3). Messages that waited
    /// go before it. Dropping the future aborts as [`Self::abort`] does.
    pub async fn prompt(&self, text: &str, options: PromptOptions) -> Result<Prompted, SessionError> {
        todo!()
    }

    /// Lets the agent go on without a new message: after a crash, a failure or when it was held, and when messages wait.
    /// [`SessionError::NothingToDo`] when the model has answered the last message.
    pub async fn resume(&self) -> Result<AgentOutcome, SessionError> {
        todo!()
    }

    /// A message for before the next call of the model; what is left of the batch is skipped (S1 3.4, ruling 40). It
    /// waits for the next prompt when the agent does nothing. `expand` and `while_running` do not count.
    pub fn steer(&self, text: &str, options: PromptOptions) -> Result<(), SessionError> {
        todo!()
    }

    /// A message for when the agent has nothing else to do (S1 3.4).
    pub fn follow_up(&self, text: &str, options: PromptOptions) -> Result<(), SessionError> {
        todo!()
    }

    /// Takes back everything that waits.
    pub fn take_queued(&self) -> Vec<Queued> {
        todo!()
    }

    /// Ends what the agent does, and returns when it does nothing any more: every call has its result then, and
    /// `AgentEnd` was told. What waits goes on waiting.
    pub async fn abort(&self) {
        todo!()
    }

    /// Another model, from the next call on; as [`ModelRegistry::resolve`](crate::model::registry::ModelRegistry::resolve) takes it.
    pub fn set_model(&self, name: &str) -> Result<ModelInfo, SessionError> {
        todo!()
    }

    /// The next or previous available model, from the next call on.
    pub fn cycle_model(&self, direction: CycleDirection) -> Result<ModelInfo, SessionError> {
        todo!()
    }

    /// How deeply it thinks, from the next call on. A model that cannot think does not get it.
    pub fn set_thinking_level(&self, level: ThinkingLevel) -> Result<(), SessionError> {
        todo!()
    }

    /// Summarises the conversation. While the agent works, that happens before its next model call, and this returns then.
    pub async fn compact(&self, instructions: Option<&str>) -> Result<CompactionResult, SessionError> {
        todo!()
    }

    /// A fresh conversation; its id.
    pub fn new_session(&self, parent: Option<&str>) -> Result<String, SessionError> {
        todo!()
    }

    /// The conversation in another file; its id.
    pub fn switch_session(&self, file: PathBuf) -> Result<String, SessionError> {
        todo!()
    }

    /// A session of its own with the conversation up to and with this entry; its id. The meters go on (ruling 31).
    pub fn fork(&self, entry_id: &str) -> Result<String, SessionError> {
        todo!()
    }

    /// Goes back to this entry, on a branch of its own in the same session; what came after it stays in the tree. None: to
    /// before the first message.
    pub fn branch(&self, entry_id: Option<&str>) -> Result<(), SessionError> {
        todo!()
    }

    /// Runs a command of the user, `!command` or `!!command` (S1 7, ruling 41). Its output goes into the conversation after
    /// what runs at the moment; that of `!!` is recorded, and no model gets to see it.
    pub async fn execute_bash(&self, input: &str) -> Result<BashExecution, SessionError> {
        todo!()
    }

    /// Bookmarks an entry (S1 9).
    pub fn label(&self, entry_id: &str, label: &str) -> Result<(), SessionError> {
        todo!()
    }

    /// Where it stands.
    pub fn state(&self) -> AgentState {
        todo!()
    }

    /// What its context consists of now.
    pub fn messages(&self) -> Vec<AgentMessage> {
        todo!()
    }

    /// Aborts, and lets nothing begin any more.
    pub async fn close(&self) {
        todo!()
    }
}
