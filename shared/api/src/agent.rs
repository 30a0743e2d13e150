//! Responses of the agent API.

use pilothouse_domain::escalation::VerdictKind;
use pilothouse_domain::output_schema::OutputViolation;
use pilothouse_domain::session::AgentSessionStatus;
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

/// The response to an output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubmittedOutput {
    /// The status of the session.
    pub status: AgentSessionStatus,
    /// Whether the output takes effect.
    pub accepted: bool,
    /// How the result violates the schema of the brief, if the output is not accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<OutputViolation>,
    /// How often such an output will be returned before it is reviewed with its violations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrections_left: Option<u8>,
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
