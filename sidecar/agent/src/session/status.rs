use std::path::PathBuf;

use pilothouse_domain::value::ThinkingLevel;

use super::Queue;
use crate::event::AgentOutcome;
use crate::message::AgentMessage;
use crate::meter::Meters;
use crate::model::info::ModelInfo;
use crate::model::registry::RegistryError;
use crate::tree::TreeError;

#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The operation requires an idle agent.
    #[error("the agent is working")]
    Busy,
    #[error("the session is closed")]
    Closed,
    /// No work to continue.
    #[error("the conversation has no work to continue")]
    NothingToDo,
    #[error(transparent)]
    Model(#[from] RegistryError),
    #[error("the conversation could not be summarised: {0}")]
    Compaction(String),
    /// The input is not a command, or there is no shell.
    #[error("{0}")]
    Bash(String),
    /// The session's file could not be read or written.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The folder has no such session.
    #[error("there is no session `{0}`")]
    Session(String),
    /// The session has no such entry.
    #[error("`{0}` is not an entry of this session")]
    Entry(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompted {
    /// The agent worked on the prompt until no work was left.
    Ended(AgentOutcome),
    Queued,
    /// The prompt was a command of an extension (S1 8), with this result.
    Command(String),
}

/// Replaces earlier messages (S1 5, `Compact`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactionResult {
    pub summary: String,
    /// The first entry that the summary does not replace.
    pub first_kept: String,
    /// Tokens in the context before the compaction.
    pub tokens_before: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Queued {
    pub queue: Queue,
    pub message: AgentMessage,
    pub tag: Option<String>,
}

/// The state of an agent (S1 5, `State`).
#[derive(Debug, Clone, PartialEq)]
pub struct AgentState {
    pub session_id: String,
    pub file: PathBuf,
    /// The next entry follows this one.
    pub leaf: Option<String>,
    pub running: bool,
    pub model: ModelInfo,
    pub thinking: ThinkingLevel,
    /// Number of messages in the context.
    pub messages: usize,
    /// Tokens in the context, counted or estimated.
    pub context_tokens: u64,
    pub steering: usize,
    pub follow_up: usize,
    /// Usage and cost so far.
    pub meters: Meters,
}
