//! Typed ids (S0 8.5).
//!
//! The control plane generates `UUIDv7` ids, which sort by creation time. Ids that an agent generates (tool calls, subagents,
//! meters) are kept as its own strings: an answer has to name the runtime's own `toolu_…`.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::string_value::string_value;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not {expected}")]
pub struct InvalidId {
    /// Shortened.
    pub given: String,
    /// The expected kind, with its article: `a session id (a UUID)`.
    pub expected: &'static str,
}

macro_rules! uuid_ids {
    ($($(#[$doc:meta])* $name:ident = $what:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            pub const fn new(uuid: Uuid) -> Self {
                Self(uuid)
            }

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
    /// Id of an agent session.
    AgentSessionId = "a session id (a UUID)";
    /// Id of a template that sessions are started from.
    AgentTemplateId = "a template id (a UUID)";
    /// Id of a skill.
    AgentSkillId = "a skill id (a UUID)";
    /// Id of a memory pill: something an agent learned, kept with a skill.
    MemoryPillId = "a memory pill id (a UUID)";
    /// Id of a chain of sessions.
    SessionChainId = "a chain id (a UUID)";
    /// Id of a handoff document (S0 8.5).
    HandoffDocumentId = "a handoff document id (a UUID)";
    /// Id of a message to or from the agent.
    MessageId = "a message id (a UUID)";
    /// Id of a run: one life of a session's sidecar (decision 3).
    RunId = "a run id (a UUID)";
    /// Id of a command to a sidecar; its acknowledgement names it (decision 11).
    CommandId = "a command id (a UUID)";
    /// Id of a journal entry. Reactions use it to be idempotent.
    EventId = "an event id (a UUID)";
    /// Id of a recorded output; approvals and rejections name it (decision 18).
    OutputId = "an output id (a UUID)";
    /// Id of an envelope on the wire.
    EnvelopeId = "an envelope id (a UUID)";
    /// Id of a template's classification rule for external events.
    ClassificationRuleId = "a classification rule id (a UUID)";
    /// Id of a task that an agent created (AG-012).
    AgentTaskId = "a task id (a UUID)";
    /// Id of a learning that an agent recorded (AG-014).
    AgentLearningId = "a learning id (a UUID)";
    /// Id of a webhook endpoint (decision 37).
    WebhookId = "a webhook id (a UUID)";
    /// Id of a browser's subscription to notifications (decision 98).
    WebPushSubscriptionId = "a subscription id (a UUID)";
    /// Id of a browser that is logged in to the web console (decision 99).
    ConsoleLoginId = "a login id (a UUID)";
    /// Id of a project of agents (S2).
    ProjectId = "a project id (a UUID)";
    /// Id of an agent of a project, which outlives its sessions (S2).
    ProjectAgentId = "an agent id (a UUID)";
    /// Id of an emergency brake (S2).
    BrakeId = "a brake id (a UUID)";
    /// Id of a decision that waits for a person (S2).
    DecisionId = "a decision id (a UUID)";
    /// Id of an artifact: a result of an agent's work that a project keeps (S2).
    ArtifactId = "an artifact id (a UUID)";
    /// Id of an issue between the work of several agents (S2).
    CoherenceIssueId = "a coherence issue id (a UUID)";
    /// A verdict on a tool call (decision 75).
    VerdictId = "a verdict id (a UUID)";
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
            /// Accepts 1 to 200 characters without control characters.
            pub fn parse(s: impl Into<String>) -> Result<Self, InvalidId> {
                let s = s.into();
                let length = s.chars().count();
                if (1..=200).contains(&length) && !s.chars().any(char::is_control) {
                    Ok(Self(s))
                } else {
                    Err(InvalidId { given: s.chars().take(80).collect(), expected: $what })
                }
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        string_value!($name.0, InvalidId, Self::parse, { "type": "string", "minLength": 1, "maxLength": 200 });

        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(s: &str) -> Result<Self, InvalidId> {
                Self::parse(s)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    )*};
}

agent_ids! {
    /// Id of a tool call and of the request that it opens (decision 26).
    ToolCallId = "a tool call id (1 to 200 characters)";
    /// Id of a subagent of a session.
    SubAgentId = "a subagent id (1 to 200 characters)";
    /// Id of a turn.
    TurnId = "a turn id (1 to 200 characters)";
    /// Id of a usage counter of an agent's conversation (decision 31).
    MeterId = "a meter id (1 to 200 characters)";
    /// Id of an external task that an agent's task refers to.
    LinkedTaskId = "a task id (1 to 200 characters)";
    /// Id of a deliverable, like `DL-001` (S4).
    DeliverableId = "a deliverable id (1 to 200 characters)";
    /// Id of a user: the subject of their token, opaque to this context (S0 8.1).
    UserId = "a user id (1 to 200 characters)";
}

impl DecisionId {
    /// The id of the decision about `what` happened to a source. It has no session that guards it.
    pub(crate) fn about(source: Uuid, what: &str) -> Self {
        Self(Uuid::new_v5(&source, what.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;

    use super::*;

    /// Accepts a UUID and nothing else, as a text and in JSON.
    fn wraps_a_uuid<T>()
    where
        T: FromStr<Err = InvalidId> + fmt::Display + fmt::Debug + PartialEq + Serialize + DeserializeOwned,
    {
        let text = "01890a5d-ac96-774b-bcce-b302099a8057";
        let id: T = text.parse().unwrap();
        assert_eq!(id.to_string(), text);
        assert_eq!(serde_json::to_value(&id).unwrap(), text);
        assert_eq!(serde_json::from_value::<T>(text.into()).unwrap(), id);
        for other in ["", "7", "toolu_1", "01890a5d-ac96-774b-bcce"] {
            assert!(other.parse::<T>().is_err(), "{other}");
            assert!(serde_json::from_value::<T>(other.into()).is_err(), "{other}");
        }
    }

    #[test]
    fn ids_of_the_control_plane_are_uuids() {
        wraps_a_uuid::<AgentSessionId>();
        wraps_a_uuid::<AgentSkillId>();
        wraps_a_uuid::<MemoryPillId>();
        wraps_a_uuid::<AgentTemplateId>();
        wraps_a_uuid::<ClassificationRuleId>();
        wraps_a_uuid::<MessageId>();
        wraps_a_uuid::<SessionChainId>();
        wraps_a_uuid::<HandoffDocumentId>();
    }

    #[test]
    fn ids_of_agents_are_their_own_strings() {
        let longest = "x".repeat(200);
        for text in ["toolu_1", "7", longest.as_str()] {
            assert_eq!(ToolCallId::parse(text).unwrap().as_str(), text);
            assert_eq!(SubAgentId::parse(text).unwrap().as_str(), text);
        }
        let too_long = "x".repeat(201);
        for text in ["", "a\nb", too_long.as_str()] {
            assert!(ToolCallId::parse(text).is_err() && SubAgentId::parse(text).is_err(), "{text}");
        }
    }
}
