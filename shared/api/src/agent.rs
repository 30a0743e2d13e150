//! Responses of the agent API.

use pilothouse_domain::{AgentLearningId, AgentTaskId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
