//! The agent's task list: a snapshot that is always replaced as a whole (S0 8.5, decision 27).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// Status of a task (S0 8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SessionTaskStatus {
    /// Not started.
    Pending,
    /// In progress.
    InProgress,
    /// Done.
    Completed,
}

/// A task of the agent (S0 8.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionTask {
    /// The agent's id for the task, or its position.
    pub id: String,
    /// Title of the task.
    pub subject: String,
    pub status: SessionTaskStatus,
    /// Label while the task is in progress, like `Running tests`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_form: Option<String>,
    pub updated_at: Timestamp,
}

/// The latest task list (S0 8.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionTaskList {
    /// The tasks, in the agent's order.
    pub tasks: Vec<SessionTask>,
    pub last_updated_at: Timestamp,
}

impl SessionTaskList {
    /// Most tasks that are kept; a longer list is cut (decision 6).
    pub const MAX_TASKS: usize = 200;

    pub fn completed(&self) -> usize {
        self.tasks.iter().filter(|t| t.status == SessionTaskStatus::Completed).count()
    }
}
