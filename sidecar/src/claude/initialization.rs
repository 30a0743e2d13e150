//! What waits for the initialization of a process.

use pilothouse_domain::value::ThinkingLevel;
use pilothouse_wire::command::AgentSessionConfig;
use tokio::time::Instant;

use super::messages::Content;
use super::options::AdapterOptions;
use crate::adapter::Reply;

/// The initialization of a process: until it has answered the first requests.
pub(super) struct Initialization {
    /// When it counts as failed.
    pub until: Instant,
    /// The process before it could not find the conversation to resume.
    pub is_renewed: bool,
}

/// A `begin` that is not confirmed yet.
pub(super) struct Beginning {
    pub reply: Reply,
    /// `None` without a prompt, or if an interrupt has withdrawn it.
    pub prompt: Option<Content>,
}

/// A reload that is not confirmed yet, with what applies if the process does not start.
pub(super) struct Reloading {
    pub reply: Reply,
    pub config: AgentSessionConfig,
    pub options: AdapterOptions,
    pub model: String,
    pub thinking: Option<ThinkingLevel>,
}
