//! Responses of the agent API.

use pilothouse_domain::escalation::VerdictKind;
use pilothouse_domain::{AgentLearningId, AgentTaskId, VerdictId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The verdict on a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolVerdict {
    /// Whether the call may be made, needs a person, or must not be made.
    pub verdict: VerdictKind,
    /// The id of the verdict, for a request for permission.
    pub verdict_id: VerdictId,
    /// The build files that the call changes, for the next request of the run.
    pub changed_build_files: Vec<String>,
    /// Why the call is denied, for the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The response to creating a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreatedTask {
    /// The id of the new task.
    pub task_id: AgentTaskId,
}

/// The response to recording a learning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedLearning {
    /// The id of the new learning.
    pub learning_id: AgentLearningId,
}
