//! Typed ids (S0 8.5).
//!
//! Ids that the control plane makes are `UUIDv7`, so they sort by creation time. Ids that an agent makes
//! (tool calls, subagents, meters) are its own strings: a runtime's `toolu_…` is the id by which its
//! answer is found again, and translating it would only lose that.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A string that is not an id of the kind that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not {expected}")]
pub struct InvalidId {
    /// What was given, cut to a length that fits a message.
    pub given: String,
    /// What was expected, with its article: `a session id (a UUID)`.
    pub expected: &'static str,
}

macro_rules! uuid_ids {
    ($($(#[$doc:meta])* $name:ident = $what:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// The id that wraps `uuid`.
            pub const fn new(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// The wrapped UUID.
            pub const fn uuid(self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0.hyphenated())
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(s: &str) -> Result<Self, InvalidId> {
                Uuid::try_parse(s)
                    .map(Self)
                    .map_err(|_| InvalidId { given: s.chars().take(80).collect(), expected: $what })
            }
        }
    )*};
}

uuid_ids! {
    /// An agent session.
    AgentSessionId = "a session id (a UUID)";
    /// A template that sessions are started from.
    AgentTemplateId = "a template id (a UUID)";
    /// A skill.
    AgentSkillId = "a skill id (a UUID)";
    /// What an agent learned, kept by a skill.
    MemoryPillId = "a memory pill id (a UUID)";
    /// A chain of sessions.
    SessionChainId = "a chain id (a UUID)";
    /// A handoff document (S0 8.5).
    HandoffDocumentId = "a handoff document id (a UUID)";
    /// A message: of the queue or of the agent.
    MessageId = "a message id (a UUID)";
    /// One life of one sidecar for a session (ruling 3).
    RunId = "a run id (a UUID)";
    /// A command to a sidecar; its acknowledgement names it (ruling 11).
    CommandId = "a command id (a UUID)";
    /// A domain event; reactions are idempotent by it.
    EventId = "an event id (a UUID)";
    /// One recorded output; approval and rejection name it (ruling 18).
    OutputId = "an output id (a UUID)";
    /// One envelope on the wire.
    EnvelopeId = "an envelope id (a UUID)";
    /// An item of the activity stream.
    ActivityItemId = "an activity item id (a UUID)";
    /// A rule of a template that sorts events from outside.
    ClassificationRuleId = "a classification rule id (a UUID)";
    /// A task that an agent created (AG-012).
    AgentTaskId = "a task id (a UUID)";
    /// Something that an agent learned (AG-014).
    AgentLearningId = "a learning id (a UUID)";
    /// An endpoint that is told of events (ruling 37).
    WebhookId = "a webhook id (a UUID)";
}

macro_rules! agent_ids {
    ($($(#[$doc:meta])* $name:ident = $what:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// 1 to 200 characters, as the agent wrote it.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Takes an id of 1 to 200 characters without control characters.
            pub fn parse(s: impl Into<String>) -> Result<Self, InvalidId> {
                let s = s.into();
                let length = s.chars().count();
                if (1..=200).contains(&length) && !s.chars().any(char::is_control) {
                    Ok(Self(s))
                } else {
                    Err(InvalidId { given: s.chars().take(80).collect(), expected: $what })
                }
            }

            /// The id as the agent wrote it.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;
            fn try_from(s: String) -> Result<Self, InvalidId> {
                Self::parse(s)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(s: &str) -> Result<Self, InvalidId> {
                Self::parse(s)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "minLength": 1, "maxLength": 200 })
            }
        }
    )*};
}

agent_ids! {
    /// A tool call, and the request that it may stand for (ruling 26).
    ToolCallId = "a tool call id (1 to 200 characters)";
    /// A subagent of a session.
    SubAgentId = "a subagent id (1 to 200 characters)";
    /// A turn of the agent.
    TurnId = "a turn id (1 to 200 characters)";
    /// One running account of usage: an agent's conversation (ruling 31).
    MeterId = "a meter id (1 to 200 characters)";
    /// A task of another context that an agent's task follows from.
    LinkedTaskId = "a task id (1 to 200 characters)";
    /// A deliverable: `DL-001` (S4).
    DeliverableId = "a deliverable id (1 to 200 characters)";
    /// The owner of sessions: the subject of a token, opaque to this context (S0 8.1).
    UserId = "a user id (1 to 200 characters)";
}
