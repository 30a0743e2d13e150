//! The port to tools (S1 3.3).

pub mod builtin;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::message::UserContent;
use crate::model::ToolSpec;

#[async_trait]
pub trait Tool: Send + Sync {
    /// Description for models.
    fn spec(&self) -> &ToolSpec;

    /// Whether the tool checks its arguments itself, because it can use the parts of them that fit.
    fn checks_arguments(&self) -> bool {
        false
    }

    /// Runs the tool. The arguments match its schema, unless it checks them itself. After a cancellation through `context.cancelled`, it returns soon
    /// and leaves no process running.
    async fn run(&self, arguments: Value, context: ToolContext) -> ToolOutput;
}

#[derive(Clone)]
pub struct ToolContext {
    pub tool_call_id: String,
    /// Cancelled when the turn is interrupted.
    pub cancelled: CancellationToken,
    /// Receives output while the tool runs. Emitted as `tool_execution_update`.
    pub progress: mpsc::UnboundedSender<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// Content for the model.
    pub content: Vec<UserContent>,
    pub is_error: bool,
    /// Whether the agent's turn ends with this call, without another model call, because the agent hands off its work.
    pub ends_turn: bool,
    /// Whether an error is temporary, so that the same call may succeed later.
    pub may_succeed_later: bool,
}

impl ToolOutput {
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            content: vec![UserContent::Text { text: text.into() }],
            is_error: false,
            ends_turn: false,
            may_succeed_later: false,
        }
    }

    /// The text tells the model what to do.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// An error after which the same call may succeed later.
    pub fn temporary_error(text: impl Into<String>) -> Self {
        Self { may_succeed_later: true, ..Self::error(text) }
    }
}

pub type SharedTool = Arc<dyn Tool>;

pub(crate) fn is_tool_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=MAX_TOOL_NAME).contains(&name.len()) && name.bytes().all(allowed)
}

/// Longest name of a tool that models accept.
pub(crate) const MAX_TOOL_NAME: usize = 64;
