//! What stands in the journal, over the API: activity, messages, tool calls, logs.

use pilothouse_domain::value::{
    ActivityItem, AgentMessageSource, DeliverableCounts, DeliverableState, ToolCallStatus,
};
use pilothouse_domain::{MessageId, RunId, SubAgentId, Timestamp, ToolCallId};
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

/// A raw event as it was recorded (AG-017).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RawEventView {
    /// Its place in the session's journal.
    pub journal_sequence: u64,
    /// The run that sent it.
    pub run_id: RunId,
    /// That run's place among the session's runs; 0 for one that is long over.
    pub run: u32,
    /// Its sequence in the run; none for what the runtime says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// When it was taken in.
    pub at: Timestamp,
    /// Its type; none where it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_type: Option<String>,
    /// What became of it.
    pub outcome: RawEventOutcome,
    /// Why it changed nothing, where it was ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignored_reason: Option<String>,
    /// What is wrong with it, where it was quarantined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
    /// The domain events that it led to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// Whether texts of `body` are only their beginnings; the whole event is at `blob`.
    pub truncated: bool,
    /// Where the whole stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// The event as it was sent.
    pub body: Value,
}

/// What became of a raw event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RawEventOutcome {
    /// It was applied.
    Applied,
    /// It waits for a request that is under way (ruling 17).
    Deferred,
    /// It is recorded and changed nothing (ruling 17).
    Ignored,
    /// It could not be read and was set aside (ruling 9).
    Quarantined,
}

/// The deliverables of a session (S4).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliverablesView {
    /// How many stand where.
    #[serde(flatten)]
    pub counts: DeliverableCounts,
    /// When the latest list was taken in.
    pub updated_at: Timestamp,
    /// In the order in which they were created.
    pub deliverables: Vec<DeliverableView>,
}

/// A verifiable piece of work (S4 `Deliverable`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliverableView {
    /// Its id, such as `DL-001`.
    pub id: String,
    /// What it is.
    pub description: String,
    /// What must hold for it to be passed.
    pub acceptance_criteria: Vec<String>,
    /// Where it stands: `pending`, `passed` or `blocked`.
    pub status: DeliverableState,
}
