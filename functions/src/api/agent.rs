//! What agents leave behind, over the API.

use pilothouse_domain::{AgentLearningId, AgentTaskId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What creating a task answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreatedTask {
    /// The task.
    pub task_id: AgentTaskId,
}

/// What recording a learning answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedLearning {
    /// The learning.
    pub learning_id: AgentLearningId,
}
