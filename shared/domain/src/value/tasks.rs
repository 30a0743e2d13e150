//! The agent's own task list: a snapshot that is replaced as a whole (S0 8.5, ruling 27).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// Where a task of the agent stands (S0 8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SessionTaskStatus {
    /// Not begun.
    Pending,
    /// Under way.
    InProgress,
    /// Done.
    Completed,
}

/// One task (S0 8.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionTask {
    /// The agent's id of it, or its position.
    pub id: String,
    /// What is to be done.
    pub subject: String,
    /// Where it stands.
    pub status: SessionTaskStatus,
    /// What to show while it is under way: `Running tests`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_form: Option<String>,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// The latest snapshot (S0 8.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionTaskList {
    /// The tasks in the agent's order.
    pub tasks: Vec<SessionTask>,
    /// When it was replaced.
    pub last_updated_at: Timestamp,
}

impl SessionTaskList {
    /// The most tasks that are kept; an agent's longer list is cut (ruling 6).
    pub const MAX_TASKS: usize = 200;

    /// Tasks that are done.
    pub fn completed(&self) -> usize {
        self.tasks.iter().filter(|t| t.status == SessionTaskStatus::Completed).count()
    }
}
