//! Tasks and learnings that agents record through the agent API (S0 8.7, decisions 37, AG-012, AG-014). Each is created from a
//! domain event and never changes.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::text::{InvalidText, LearningContent, LearningSubject, Tag, TaskDescription, TaskTitle};
use crate::{
    AgentLearningId, AgentSessionId, AgentTaskId, LinkedTaskId, RateLimit, SessionEvent, Timestamp, UserId,
};

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

/// Tags of a task: at most 20, without duplicates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<Tag>")]
pub struct Tags(Vec<Tag>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTags {
    #[error("must have at most {max} tags, but has {actual}", max = Tags::MAX)]
    TooMany { actual: usize },
    #[error("`{tag}` is not a tag: it {why}")]
    InvalidTag { tag: String, why: InvalidText },
    #[error("`{tag}` occurs twice")]
    Duplicate { tag: String },
}

impl Tags {
    pub const MAX: usize = 20;

    pub fn as_slice(&self) -> &[Tag] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl JsonSchema for Tags {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Tags".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let tag = generator.subschema_for::<Tag>();
        json_schema!({ "type": "array", "items": tag, "maxItems": Self::MAX, "uniqueItems": true })
    }
}

impl TryFrom<Vec<String>> for Tags {
    type Error = InvalidTags;

    fn try_from(given: Vec<String>) -> Result<Self, InvalidTags> {
        if given.len() > Self::MAX {
            return Err(InvalidTags::TooMany { actual: given.len() });
        }
        let mut tags: Vec<Tag> = Vec::with_capacity(given.len());
        for text in given {
            let shown = crate::text::cut(&text, 80);
            let tag = Tag::parse(text).map_err(|why| InvalidTags::InvalidTag { tag: shown.clone(), why })?;
            if tags.contains(&tag) {
                return Err(InvalidTags::Duplicate { tag: shown });
            }
            tags.push(tag);
        }
        Ok(Self(tags))
    }
}

impl From<Tags> for Vec<Tag> {
    fn from(tags: Tags) -> Self {
        tags.0
    }
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

impl AgentItem {
    /// The task or learning that a session's event records, if any.
    pub fn of(
        event: &SessionEvent,
        session_id: AgentSessionId,
        owner_id: &UserId,
        created_at: Timestamp,
    ) -> Option<Self> {
        let owner_id = owner_id.clone();
        match event {
            SessionEvent::ApiTaskCreated { created_task_id: id, task, .. } => {
                Some(Self::Task(AgentTask { id: *id, session_id, owner_id, task: task.clone(), created_at }))
            }
            SessionEvent::LearningRecorded { learning_id: id, learning } => {
                Some(Self::Learning(AgentLearning {
                    id: *id,
                    session_id,
                    owner_id,
                    learning: learning.clone(),
                    created_at,
                }))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_limited_and_unique() {
        let tags = |all: &[&str]| Tags::try_from(all.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>());
        assert_eq!(tags(&["a", " b "]).unwrap().as_slice()[1].as_str(), "b");
        assert_eq!(tags(&["a", "a "]), Err(InvalidTags::Duplicate { tag: "a ".to_owned() }));
        assert!(matches!(tags(&[""]), Err(InvalidTags::InvalidTag { .. })));
        assert_eq!(tags(&["x"; 21]), Err(InvalidTags::TooMany { actual: 21 }));
    }
}
