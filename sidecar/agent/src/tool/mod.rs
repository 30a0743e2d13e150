//! The port to tools (S1 3.3).

pub mod builtin;
pub mod text;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::message::UserContent;
use crate::model::ToolSpec;

/// Something that an agent can do.
#[async_trait]
pub trait Tool: Send + Sync {
    /// How models see it.
    fn spec(&self) -> &ToolSpec;

    /// Does it. The arguments fit the schema. A tool that is cut off through `context.cancelled` returns soon, and
    /// leaves no process behind.
    async fn run(&self, arguments: Value, context: ToolContext) -> ToolOutput;
}

/// What a call comes with.
#[derive(Clone)]
pub struct ToolContext {
    /// The call.
    pub tool_call_id: String,
    /// Told when the call is to end: the turn was interrupted.
    pub cancelled: CancellationToken,
    /// Takes what the tool writes while it runs; told as `tool_execution_update`.
    pub progress: mpsc::UnboundedSender<String>,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// What the model gets to see.
    pub content: Vec<UserContent>,
    /// Whether it failed.
    pub is_error: bool,
    /// Whether the agent's turn ends with this call instead of going back to the model: it hands its work on.
    pub ends_turn: bool,
}

impl ToolOutput {
    /// It worked.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![UserContent::Text { text: text.into() }], is_error: false, ends_turn: false }
    }

    /// It failed; a sentence that says what to do.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }
}

/// A tool that is shared.
pub type SharedTool = Arc<dyn Tool>;

/// Whether models take it as the name of a tool.
pub(crate) fn is_tool_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=MAX_TOOL_NAME).contains(&name.len()) && name.bytes().all(allowed)
}

/// The longest name of a tool that models take.
pub(crate) const MAX_TOOL_NAME: usize = 64;
