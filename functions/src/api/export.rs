//! A session as one document.

use pilothouse_domain::agent_api::{AgentLearning, AgentTask};
use pilothouse_domain::session::{PendingRequest, RecordedOutput};
use pilothouse_domain::value::{SessionPlan, SessionTaskList};
use pilothouse_domain::{RunId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::messages::QueueView;
use super::records::{ActivityView, LogChunkView, MessageView, RawEventView, ToolCallView};
use super::sessions::{SessionMetricsView, SessionView};

/// The format of [`SessionExport`]. It grows when a field changes its meaning or goes; new fields do not move it.
pub const SCHEMA_VERSION: u32 = 1;

/// Everything that is kept of a session, as it stood at `session.cursor`.
///
/// Texts that were too large for the journal stand as their beginnings, with `truncated: true` and `blob`: the last part of
/// that name is the SHA-256 that `GET …/blobs/{sha256}` takes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionExport {
    /// The format: 1.
    pub schema_version: u32,
    /// The session in full.
    pub session: SessionView,
    /// Its runs, oldest first; the latest few.
    pub runs: Vec<ExportedRun>,
    /// What waits to be said.
    pub queue: QueueView,
    /// The conversation, subagents' included, in the order of recording.
    pub messages: Vec<MessageView>,
    /// Tool calls with their results, subagents' included.
    pub tool_calls: Vec<ToolCallView>,
    /// Everything that happened, line by line.
    pub activity: Vec<ActivityView>,
    /// Log chunks, decisions among them.
    pub logs: Vec<LogChunkView>,
    /// What was used, by model and subagent.
    pub metrics: SessionMetricsView,
    /// The agent's task list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_list: Option<SessionTaskList>,
    /// The agent's plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<SessionPlan>,
    /// What it asked and nobody has answered.
    pub pending_requests: Vec<PendingRequest>,
    /// What it produced last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<RecordedOutput>,
    /// Tasks that the agent created.
    pub tasks: Vec<AgentTask>,
    /// What the agent learned about people and communication.
    pub learnings: Vec<AgentLearning>,
    /// The raw events of its sidecars.
    pub raw_events: Vec<RawEventView>,
    /// Where the journal goes on that did not fit; none: everything is here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<ExportRest>,
}

/// A run in an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExportedRun {
    /// Its id.
    pub id: RunId,
    /// Counts the session's runs from 1.
    pub ordinal: u32,
    /// When it ended; none for the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// What an export does not hold, as its session is too large for one document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExportRest {
    /// The first place in the journal that is not in it: `GET …/events?from=` goes on there.
    pub from: u64,
}

/// An export that is too large for an answer, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExportReference {
    /// The format of the document.
    pub schema_version: u32,
    /// Its size.
    pub bytes: u64,
    /// SHA-256 of its bytes.
    pub sha256: String,
    /// Where it is to be had; the same as the header `Location`.
    pub location: String,
}
