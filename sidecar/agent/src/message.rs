//! What a conversation consists of (S1 3.1, 9): the entries of the session tree carry these, and the model gets them
//! converted. Calls and results are always paired in what a model gets (ruling 40).

use std::sync::Arc;

use pilothouse_domain::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Messages that whoever holds them shares: a request is made and tried again without copying what was said.
pub type SharedMessages = Arc<Vec<Arc<AgentMessage>>>;

/// One message of a conversation; `role` names it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum AgentMessage {
    /// What the agent is told.
    User(UserMessage),
    /// What the model answered.
    Assistant(AssistantMessage),
    /// What came of one tool call.
    ToolResult(ToolResultMessage),
    /// A command that the user ran with `!` or `!!` (S1 7, ruling 41).
    BashExecution(BashExecution),
}

/// What the agent is told: a prompt, a steering message, a follow-up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserMessage {
    /// Text and images, in order.
    pub content: Vec<UserContent>,
    /// When it was said.
    pub timestamp: Timestamp,
}

/// A block that a user or a tool gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum UserContent {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    Image {
        /// `image/png`, …
        mime_type: String,
        /// Base64.
        data: String,
    },
}

/// What the model answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AssistantMessage {
    /// What it says, thinks and calls, in order.
    pub content: Vec<AssistantContent>,
    /// The provider that answered.
    pub provider: String,
    /// The model that answered.
    pub model: String,
    /// What the call took.
    pub usage: Usage,
    /// Why it stopped.
    pub stop_reason: StopReason,
    /// What went wrong, when `stop_reason` is [`StopReason::Error`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When it was complete.
    pub timestamp: Timestamp,
}

impl AssistantMessage {
    /// Its tool calls, in order (S1 3.3).
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(|block| match block {
            AssistantContent::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// Its text, without thoughts and calls.
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|block| match block {
            AssistantContent::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// A block of the model's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum AssistantContent {
    /// What it says.
    Text {
        /// The text.
        text: String,
    },
    /// What it thinks.
    Thinking {
        /// The text.
        thinking: String,
        /// What the provider needs to believe it when it is sent back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// It calls a tool.
    ToolCall(ToolCall),
}

/// The call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// The provider's id of it; its result names it.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments, as the model gave them: an object, or a string that was no JSON.
    pub arguments: Value,
}

/// What came of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultMessage {
    /// The call.
    pub tool_call_id: String,
    /// The tool.
    pub tool_name: String,
    /// What the model gets to see.
    pub content: Vec<UserContent>,
    /// Whether it failed, was refused or was skipped.
    pub is_error: bool,
    /// When it was there.
    pub timestamp: Timestamp,
}

/// A command that the user ran (S1 7).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BashExecution {
    /// The command as it was typed, without its marks.
    pub command: String,
    /// What it wrote, cut as a tool's output is.
    pub output: String,
    /// Its exit code; none when it was killed.
    pub exit_code: Option<i32>,
    /// Whether it was cut off.
    pub cancelled: bool,
    /// Whether `output` is not the whole.
    pub truncated: bool,
    /// Whether the model does not get to see it (`!!`).
    pub exclude_from_context: bool,
    /// When it ended.
    pub timestamp: Timestamp,
}

/// What a model call took, in tokens. The parts do not overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Read, and not from a cache.
    pub input: u64,
    /// Written.
    pub output: u64,
    /// Read from a cache.
    pub cache_read: u64,
    /// Written to a cache.
    pub cache_write: u64,
}

impl Usage {
    /// All of it: what the context window held when the answer was complete.
    pub const fn total(&self) -> u64 {
        self.input + self.output + self.cache_read + self.cache_write
    }
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StopReason {
    /// It had said everything.
    Stop,
    /// At the limit of its output.
    Length,
    /// It waits for tools.
    ToolUse,
    /// It will not answer.
    Refusal,
    /// The call failed.
    Error,
    /// The call was cut off.
    Aborted,
}
