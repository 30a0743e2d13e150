//! What stands in the journal, over the API: activity, messages, tool calls, logs.

use pilothouse_domain::value::{ActivityItem, AgentMessageSource, ToolCallStatus};
use pilothouse_domain::{MessageId, SubAgentId, Timestamp, ToolCallId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A line of the activity stream with its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActivityView {
    /// Its place: unique in the session, and ordered.
    pub id: String,
    /// The line.
    #[serde(flatten)]
    pub item: ActivityItem,
}

/// A message of the conversation (S0 8.7 `AgentMessageDto`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageView {
    /// Its place in the journal.
    pub id: String,
    /// The message of the queue that it was, when a person or Pilothouse says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// Who says it.
    pub source: AgentMessageSource,
    /// The subagent that says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_agent_id: Option<SubAgentId>,
    /// What it says.
    pub content: String,
    /// Whether it was thought aloud.
    pub thinking: bool,
    /// Whether `content` is only its beginning; the whole is at `blob`.
    pub truncated: bool,
    /// Where the whole stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// When it was recorded.
    pub timestamp: Timestamp,
}

/// A tool call with its result (S0 8.7 `ToolCallDto`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallView {
    /// The call.
    pub id: ToolCallId,
    /// The subagent that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_agent_id: Option<SubAgentId>,
    /// The tool.
    pub tool_name: String,
    /// Its input as JSON.
    pub input: Value,
    /// Whether texts of `input` are only their beginnings; the whole event is at `blob`.
    pub truncated: bool,
    /// Where the whole stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// What it gave; nothing while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<ToolResultView>,
    /// Where it stands.
    pub status: ToolCallStatus,
    /// When it was called.
    pub started_at: Timestamp,
    /// When it gave its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
}

/// The result of a tool call (S0 8.5 `ToolResult`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultView {
    /// What it says.
    pub content: String,
    /// Whether the tool failed.
    pub is_error: bool,
    /// Whether `content` is only its beginning; the whole is at `blob`.
    pub truncated: bool,
    /// Where the whole stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
}

/// A piece of log (S0 8.5 `SessionLogChunk`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogChunkView {
    /// Its place in the journal.
    pub sequence_number: u64,
    /// Where it comes from: `agent`, `sidecar`, `decision`, or a stream's name.
    pub stream: String,
    /// The text.
    pub content: String,
    /// Whether `content` is only its beginning; the whole event is at `blob`.
    pub truncated: bool,
    /// Where the whole stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// When it was recorded.
    pub recorded_at: Timestamp,
}
