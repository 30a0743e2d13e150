//! The messages of a conversation (S1 3.1, 9), as in the session tree. A model gets them converted, with calls and
//! results paired (decision 40).

use std::sync::Arc;

use pilothouse_domain::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Shared messages, so that requests and retries do not copy the conversation.
pub type SharedMessages = Arc<Vec<Arc<AgentMessage>>>;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum AgentMessage {
    User(UserMessage),
    Assistant(AssistantMessage),
    ToolResult(ToolResultMessage),
    /// Run with `!` or `!!` (S1 7, decision 41).
    BashExecution(BashExecution),
}

/// Input of the agent: a prompt, a steering message, a follow-up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserMessage {
    pub content: Vec<UserContent>,
    pub timestamp: Timestamp,
}

/// A block of a user's message or of a tool result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum UserContent {
    Text {
        text: String,
    },
    Image {
        /// For example `image/png`.
        mime_type: String,
        /// Base64-encoded.
        data: String,
    },
}

/// A reply of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AssistantMessage {
    /// Text, thoughts and calls, in order.
    pub content: Vec<AssistantContent>,
    pub provider: String,
    pub model: String,
    pub usage: Usage,
    pub stop_reason: StopReason,
    /// The error, if `stop_reason` is [`StopReason::Error`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When the reply was complete.
    pub timestamp: Timestamp,
}

impl AssistantMessage {
    /// In order (S1 3.3).
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(|block| match block {
            AssistantContent::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// The text without thoughts and calls.
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|block| match block {
            AssistantContent::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// A block of the model's reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum AssistantContent {
    Text {
        text: String,
    },
    Thinking {
        thinking: String,
        /// Provider data that must be returned together with the thought.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    ToolCall(ToolCall),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// The provider's id of the call. The result refers to it.
    pub id: String,
    pub name: String,
    /// Arguments as the model wrote them: an object, or a string if they were not valid JSON.
    pub arguments: Value,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultMessage {
    pub tool_call_id: String,
    pub tool_name: String,
    /// Content for the model.
    pub content: Vec<UserContent>,
    /// Whether the call failed, was refused or was skipped.
    pub is_error: bool,
    /// When the result was complete.
    pub timestamp: Timestamp,
}

/// A command that the user ran (S1 7).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BashExecution {
    /// The command without its `!` or `!!`.
    pub command: String,
    /// Output, truncated like a tool's output.
    pub output: String,
    pub exit_code: Option<i32>,
    pub cancelled: bool,
    /// Whether `output` is incomplete.
    pub truncated: bool,
    /// Whether the command is hidden from the model (`!!`).
    pub exclude_from_context: bool,
    /// When the command ended.
    pub timestamp: Timestamp,
}

/// Tokens of a model call. The parts do not overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Input tokens, not read from a cache.
    pub input: u64,
    pub output: u64,
    /// Input tokens read from a cache.
    pub cache_read: u64,
    /// Input tokens written to a cache.
    pub cache_write: u64,
}

impl From<&Usage> for pilothouse_model_table::Tokens {
    fn from(usage: &Usage) -> Self {
        let Usage { input, output, cache_read, cache_write } = *usage;
        Self { input, output, cache_read, cache_write }
    }
}

impl Usage {
    /// All tokens: the fill level of the context window when the reply was complete.
    pub const fn total(&self) -> u64 {
        self.input + self.output + self.cache_read + self.cache_write
    }
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StopReason {
    /// The reply is complete.
    Stop,
    /// The output limit was reached.
    Length,
    /// The model waits for tool results.
    ToolUse,
    /// The model refused to answer.
    Refusal,
    /// The call failed.
    Error,
    /// The call was cancelled.
    Aborted,
}

/// Replaces the text of a user's message. Its images stay.
pub(crate) fn with_text(message: AgentMessage, text: &str) -> AgentMessage {
    let AgentMessage::User(user) = message else { return message };
    let images = user.content.into_iter().filter(|block| matches!(block, UserContent::Image { .. }));
    user_message(text, images.collect())
}

pub(crate) fn user_message(text: &str, images: Vec<UserContent>) -> AgentMessage {
    let text = UserContent::Text { text: text.to_owned() };
    AgentMessage::User(UserMessage {
        content: std::iter::once(text).chain(images).collect(),
        timestamp: now(),
    })
}

/// A result that does not come from the tool itself.
pub(crate) fn tool_result(call: &ToolCall, text: &str, is_error: bool) -> ToolResultMessage {
    ToolResultMessage {
        tool_call_id: call.id.clone(),
        tool_name: call.name.clone(),
        content: vec![UserContent::Text { text: text.into() }],
        is_error,
        timestamp: now(),
    }
}

/// For display only.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_millis(jiff::Timestamp::now().as_millisecond())
}
