//! The export of a session as one document.

use pilothouse_domain::agent_api::{AgentLearning, AgentTask};
use pilothouse_domain::session::{PendingRequest, RecordedOutput};
use pilothouse_domain::value::{SessionPlan, SessionTaskList};
use pilothouse_domain::{RunId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::messages::QueueView;
use super::records::{ActivityView, LogChunkView, MessageView, RawEventView, ToolCallView};
use super::sessions::{SessionMetricsView, SessionView};

/// The version of the format of [`SessionExport`]. It increases when a field is removed or changes its meaning, not when a field
/// is added.
pub const SCHEMA_VERSION: u32 = 1;

/// A session with its complete history, as of `session.cursor`.
///
/// A text that was too large for the journal is truncated: `truncated` is true, and `blob` names the full content. The last
/// segment of that name is the SHA-256 to pass to `GET …/blobs/{sha256}`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionExport {
    /// The version of the format.
    pub schema_version: u32,
    /// The session.
    pub session: SessionView,
    /// The latest runs of the session, oldest first.
    pub runs: Vec<ExportedRun>,
    /// The messages that are queued for the agent.
    pub queue: QueueView,
    /// The conversation in the order of recording, including that of subagents.
    pub messages: Vec<MessageView>,
    /// The tool calls with their results, including those of subagents.
    pub tool_calls: Vec<ToolCallView>,
    /// The activity stream of the session.
    pub activity: Vec<ActivityView>,
    /// The log chunks of the session, including its decision log.
    pub logs: Vec<LogChunkView>,
    /// The usage by model and by subagent.
    pub metrics: SessionMetricsView,
    /// The agent's task list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_list: Option<SessionTaskList>,
    /// The agent's plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<SessionPlan>,
    /// The questions and plans that wait for an answer from the owner.
    pub pending_requests: Vec<PendingRequest>,
    /// The latest output of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<RecordedOutput>,
    /// The tasks that the agent created.
    pub tasks: Vec<AgentTask>,
    /// What the agent learned about people and communication.
    pub learnings: Vec<AgentLearning>,
    /// The raw events that the sidecars sent.
    pub raw_events: Vec<RawEventView>,
    /// Where to read the entries that did not fit. Absent when the export is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<ExportRest>,
}

/// A run of an exported session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExportedRun {
    /// The id of the run.
    pub id: RunId,
    /// The number of the run within the session, counted from 1.
    pub ordinal: u32,
    /// When the run ended. Absent for the current run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// The part of a session that does not fit into one document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExportRest {
    /// The first journal sequence that the export lacks. Read on with `GET …/events?from=`.
    pub from: u64,
}

/// The location of an export that is too large for a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExportReference {
    /// The version of the format of the document.
    pub schema_version: u32,
    /// The size of the document in bytes.
    pub bytes: u64,
    /// The SHA-256 of the document.
    pub sha256: String,
    /// The address of the document; the same as the `Location` header.
    pub location: String,
}
