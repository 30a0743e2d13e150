//! What a session answers to whoever drives it.

use std::path::PathBuf;

use pilothouse_domain::value::ThinkingLevel;

use super::Queue;
use crate::event::AgentOutcome;
use crate::message::AgentMessage;
use crate::meter::Meters;
use crate::model::registry::{ModelInfo, RegistryError};
use crate::tree::TreeError;

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
    /// It is no command, or there is no shell.
    #[error("{0}")]
    Bash(String),
    /// The session's file could not be read or written.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// It names no session of the folder.
    #[error("there is no session `{0}`")]
    Session(String),
    /// It names no entry.
    #[error("`{0}` is no entry")]
    Entry(String),
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
    /// As in [`PromptOptions::tag`](super::PromptOptions::tag).
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
