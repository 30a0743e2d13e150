//! What agents leave behind through their API beside their sessions: tasks and learnings (S0 8.7, rulings 37, AG-012, AG-014).
//! Each is made from the domain event that records it, and never changes.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::text::{InvalidText, LearningContent, LearningSubject, Tag, TaskDescription, TaskTitle};
use crate::{
    AgentLearningId, AgentSessionId, AgentTaskId, DomainEvent, LinkedTaskId, RateLimit, Timestamp, UserId,
};

/// How often the agent of one session may call: 60 calls at once, and one more each second.
pub const CALLS: RateLimit = RateLimit { burst: 60, step: std::time::Duration::from_secs(1) };

/// How urgent a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs)] // the names say it
pub enum AgentTaskPriority {
    Low,
    Normal,
    High,
    Urgent,
}

/// Who created a task (S0 8.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AgentTaskSource {
    /// An agent, through its API.
    AgentApi,
}

/// Tags of a task: at most 20, each once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<Tag>")]
pub struct Tags(Vec<Tag>);

/// Tags that are none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTags {
    /// More than there may be.
    #[error("must have at most {max} tags, but has {actual}", max = Tags::MAX)]
    TooMany {
        /// What was given.
        actual: usize,
    },
    /// One of them is no tag.
    #[error("`{tag}` is no tag: it {why}")]
    NoTag {
        /// Which.
        tag: String,
        /// Why not.
        why: InvalidText,
    },
    /// One is there twice.
    #[error("`{tag}` is there twice")]
    Twice {
        /// Which.
        tag: String,
    },
}

impl Tags {
    /// The most tags.
    pub const MAX: usize = 20;

    /// The tags.
    pub fn as_slice(&self) -> &[Tag] {
        &self.0
    }

    /// Whether there are none.
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
            let tag = Tag::parse(text).map_err(|why| InvalidTags::NoTag { tag: shown.clone(), why })?;
            if tags.contains(&tag) {
                return Err(InvalidTags::Twice { tag: shown });
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

/// What an agent wants done, by whoever looks after tasks (S0 8.7 `AgentCreateTaskCommand`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewAgentTask {
    /// In a line.
    pub title: TaskTitle,
    /// In full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<TaskDescription>,
    /// How urgent.
    pub priority: AgentTaskPriority,
    /// Tags.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    /// The task that it follows from, by the name that others have for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linked_task_id: Option<LinkedTaskId>,
}

/// A task that an agent created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentTask {
    /// Its id.
    pub id: AgentTaskId,
    /// The session whose agent created it.
    pub session_id: AgentSessionId,
    /// Whose session that is.
    pub owner_id: UserId,
    /// What is to be done.
    #[serde(flatten)]
    pub task: NewAgentTask,
    /// When.
    pub created_at: Timestamp,
}

/// What a learning is about (AG-014).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LearningKind {
    /// Somebody: who they are, what they look after, what they prefer.
    Person,
    /// How things are said and to whom: channels, tone, habits.
    Communication,
}

/// A text that names no kind of learning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be Person or Communication")]
pub struct NoLearningKind;

impl std::str::FromStr for LearningKind {
    type Err = NoLearningKind;

    fn from_str(text: &str) -> Result<Self, NoLearningKind> {
        match text {
            "Person" => Ok(Self::Person),
            "Communication" => Ok(Self::Communication),
            _ => Err(NoLearningKind),
        }
    }
}

/// What an agent learned about people or communication.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewAgentLearning {
    /// What it is about.
    pub kind: LearningKind,
    /// Whom or which channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<LearningSubject>,
    /// What was learned.
    pub content: LearningContent,
}

/// A learning that was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentLearning {
    /// Its id.
    pub id: AgentLearningId,
    /// The session whose agent recorded it.
    pub session_id: AgentSessionId,
    /// Whose session that is.
    pub owner_id: UserId,
    /// What was learned.
    #[serde(flatten)]
    pub learning: NewAgentLearning,
    /// When.
    pub created_at: Timestamp,
}

/// Something that an agent left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentItem {
    /// A task.
    Task(AgentTask),
    /// A learning.
    Learning(AgentLearning),
}

impl AgentItem {
    /// What `event` of a session leaves behind.
    pub fn of(
        event: &DomainEvent,
        session_id: AgentSessionId,
        owner_id: &UserId,
        created_at: Timestamp,
    ) -> Option<Self> {
        let owner_id = owner_id.clone();
        match event {
            DomainEvent::ApiTaskCreated { created_task_id: id, task, .. } => {
                Some(Self::Task(AgentTask { id: *id, session_id, owner_id, task: task.clone(), created_at }))
            }
            DomainEvent::LearningRecorded { learning_id: id, learning } => {
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
    fn tags_are_few_and_each_is_there_once() {
        let tags = |all: &[&str]| Tags::try_from(all.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>());
        assert_eq!(tags(&["a", " b "]).unwrap().as_slice()[1].as_str(), "b");
        assert_eq!(tags(&["a", "a "]), Err(InvalidTags::Twice { tag: "a ".to_owned() }));
        assert!(matches!(tags(&[""]), Err(InvalidTags::NoTag { .. })));
        assert_eq!(tags(&["x"; 21]), Err(InvalidTags::TooMany { actual: 21 }));
    }
}
