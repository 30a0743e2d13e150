//! Tasks and learnings that agents record through the agent API (S0 8.7, decisions 37, AG-012, AG-014). Each is created from a
//! domain event and never changes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::{LearningContent, LearningSubject, Tags, TaskDescription, TaskTitle};
use crate::{AgentLearningId, AgentSessionId, AgentTaskId, LinkedTaskId, RateLimit, Timestamp, UserId};

/// Rate limit of the agent of one session: 60 calls at once, and one more each second.
pub const AGENT_API_RATE_LIMIT: RateLimit = RateLimit { burst: 60, step: std::time::Duration::from_secs(1) };

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AgentTaskPriority {
    Low,
    Normal,
    High,
    Urgent,
}

crate::names::named!(AgentTaskPriority {
    Low => "Low",
    Normal => "Normal",
    High => "High",
    Urgent => "Urgent",
});

/// Creator of a task (S0 8.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AgentTaskSource {
    /// An agent, through the agent API.
    AgentApi,
}

/// A task that an agent wants to have done (S0 8.7 `AgentCreateTaskCommand`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewAgentTask {
    /// One line.
    pub title: TaskTitle,
    /// Full description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<TaskDescription>,
    pub priority: AgentTaskPriority,
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    /// Id of a related task in the system that manages tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linked_task_id: Option<LinkedTaskId>,
}

/// A task that an agent created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentTask {
    pub id: AgentTaskId,
    /// The session whose agent created the task.
    pub session_id: AgentSessionId,
    pub owner_id: UserId,
    #[serde(flatten)]
    pub task: NewAgentTask,
    pub created_at: Timestamp,
}

/// Topic of a learning (AG-014).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LearningKind {
    /// A person: who they are, what they are responsible for, what they prefer.
    Person,
    /// Ways of communicating: channels, tone, habits.
    Communication,
}

crate::names::named!(LearningKind {
    Person => "Person",
    Communication => "Communication",
});

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be Person or Communication")]
pub struct InvalidLearningKind;

impl std::str::FromStr for LearningKind {
    type Err = InvalidLearningKind;

    fn from_str(text: &str) -> Result<Self, InvalidLearningKind> {
        match text {
            "Person" => Ok(Self::Person),
            "Communication" => Ok(Self::Communication),
            _ => Err(InvalidLearningKind),
        }
    }
}

/// A learning of an agent about people or communication.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewAgentLearning {
    pub kind: LearningKind,
    /// The person or channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<LearningSubject>,
    pub content: LearningContent,
}

/// A learning that was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentLearning {
    pub id: AgentLearningId,
    /// The session whose agent recorded the learning.
    pub session_id: AgentSessionId,
    pub owner_id: UserId,
    #[serde(flatten)]
    pub learning: NewAgentLearning,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentItem {
    Task(AgentTask),
    Learning(AgentLearning),
}
