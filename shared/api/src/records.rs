//! Records of a session's journal in the API: activity, messages, tool calls, logs.

use pilothouse_domain::journal::RepairRule;
use pilothouse_domain::text_search::WordPosition;
use pilothouse_domain::value::{
    ActivityItem, ActivityItemType, AgentMessageSource, DeliverableCounts, DeliverableState, MessageImage,
    ToolCallStatus,
};
use pilothouse_domain::{MessageId, RunId, SubAgentId, Timestamp, ToolCallId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A line of the activity stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActivityView {
    /// The position of the line, unique and ordered within the session.
    pub id: String,
    /// The content of the line.
    #[serde(flatten)]
    pub item: ActivityItem,
}

/// A message of the conversation (S0 8.7 `AgentMessageDto`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageView {
    /// The journal sequence of the message.
    pub id: String,
    /// The id of the queued message, if a person, a webhook or Pilothouse sent this message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// The sender of the message.
    pub source: AgentMessageSource,
    /// The subagent that sent the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_agent_id: Option<SubAgentId>,
    /// The text of the message.
    pub content: String,
    /// The images of the message, without their bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<MessageImage>,
    /// Whether the message is part of the agent's thinking.
    pub thinking: bool,
    /// Whether `content` is truncated. The full text is in the blob that `blob` names.
    pub truncated: bool,
    /// The blob with the full text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// When it was recorded.
    pub timestamp: Timestamp,
}

/// A tool call with its result (S0 8.7 `ToolCallDto`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallView {
    /// The id of the call.
    pub id: ToolCallId,
    /// The subagent that made the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_agent_id: Option<SubAgentId>,
    /// The name of the tool.
    pub tool_name: String,
    /// The input of the tool.
    pub input: Value,
    /// Whether texts of `input` are truncated. The full event is in the blob that `blob` names.
    pub truncated: bool,
    /// The blob with the full event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// The result of the call. Absent while the call is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<ToolResultView>,
    /// The status of the call.
    pub status: ToolCallStatus,
    /// When the call was made.
    pub started_at: Timestamp,
    /// When the result was received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
}

/// The result of a tool call (S0 8.5 `ToolResult`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultView {
    /// The text of the result.
    pub content: String,
    /// Whether the tool failed.
    pub is_error: bool,
    /// Whether `content` is truncated. The full text is in the blob that `blob` names.
    pub truncated: bool,
    /// The blob with the full text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
}

/// A text of a session that has the words of a search (decision 97).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TextMatch {
    /// The journal sequence of the text.
    pub journal_sequence: u64,
    /// The id of the line of the activity stream that shows the text. Absent if no line does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity_id: Option<String>,
    /// The type of the text, as in the activity stream.
    #[serde(rename = "type")]
    pub kind: ActivityItemType,
    /// Whether the text is part of the agent's thinking.
    pub thinking: bool,
    /// The subagent that the text concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_agent_id: Option<SubAgentId>,
    /// When it was recorded.
    pub timestamp: Timestamp,
    /// The part of the text around the longest word, as one line of at most 300 characters.
    pub excerpt: String,
    /// The words in `excerpt`, in order. They do not overlap.
    pub words: Vec<WordPosition>,
}

/// A chunk of a session's log (S0 8.5 `SessionLogChunk`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogChunkView {
    /// The journal sequence of the chunk.
    pub sequence_number: u64,
    /// The source of the chunk: `agent`, `sidecar`, `decision`, or the name of a stream.
    pub stream: String,
    /// The text of the chunk.
    pub content: String,
    /// Whether `content` is truncated. The full event is in the blob that `blob` names.
    pub truncated: bool,
    /// The blob with the full event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// When it was recorded.
    pub recorded_at: Timestamp,
}

/// A raw event of a sidecar, as it was recorded (AG-017).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RawEventView {
    /// The sequence of the event in the session's journal.
    pub journal_sequence: u64,
    /// The run that sent it.
    pub run_id: RunId,
    /// The number of the run within the session; 0 for a run that ended long ago.
    pub run: u32,
    /// The sequence of the event within its run. Absent for events of the runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// When the event was recorded.
    pub at: Timestamp,
    /// When the event happened, by the clock of the agent or its sidecar. Absent if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occurred_at: Option<Timestamp>,
    /// The type of the event. Absent when the event could not be parsed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_type: Option<String>,
    /// How the event was processed.
    pub outcome: RawEventOutcome,
    /// Why the event changed nothing, if it was ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignored_reason: Option<String>,
    /// The violations of the event's schema, if it was quarantined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
    /// How the event was repaired before it was applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<RepairRule>,
    /// The names of the domain events that the event caused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// Whether texts of `body` are truncated. The full event is in the blob that `blob` names.
    pub truncated: bool,
    /// The blob with the full event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// The event as the sidecar sent it, after `repairs`.
    pub body: Value,
}

/// How a raw event was processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RawEventOutcome {
    /// The event was applied.
    Applied,
    /// The event did not fit its schema, was repaired by the rules in `repairs`, and applied (decision 82).
    Repaired,
    /// The event is held until a request in progress resolves (decision 17).
    Deferred,
    /// The event was recorded and changed nothing (decision 17).
    Ignored,
    /// The event could not be parsed and was quarantined (decision 9).
    Quarantined,
}

/// The deliverables of a session (S4).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliverablesView {
    /// The number of deliverables in each status.
    #[serde(flatten)]
    pub counts: DeliverableCounts,
    /// When the agent reported the latest list.
    pub updated_at: Timestamp,
    /// The deliverables in the order of their creation.
    pub deliverables: Vec<DeliverableView>,
}

/// A verifiable piece of work (S4 `Deliverable`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliverableView {
    /// The id of the deliverable, such as `DL-001`.
    pub id: String,
    /// A description of the deliverable.
    pub description: String,
    /// The conditions for the status `passed`.
    pub acceptance_criteria: Vec<String>,
    /// The status: `pending`, `passed` or `blocked`.
    pub status: DeliverableState,
}
