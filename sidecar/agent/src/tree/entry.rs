//! What a session file consists of: a header line, then one line an entry.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use pilothouse_domain::Timestamp;
use pilothouse_domain::value::ThinkingLevel;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::message::AgentMessage;

/// The version of the format that this code writes, and the highest that it reads.
pub const FORMAT_VERSION: u32 = 1;

/// Names an entry; unique in its session and in all forks of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EntryId(Uuid);

impl EntryId {
    /// A new one; later ones sort after earlier ones.
    pub(super) fn mint() -> Self {
        Self(Uuid::now_v7())
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for EntryId {
    type Err = uuid::Error;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// The first line of a session file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "session", rename_all = "camelCase")]
pub struct Header {
    /// The version of the format.
    pub version: u32,
    /// The session.
    pub id: String,
    /// When it was created.
    pub timestamp: Timestamp,
    /// The working directory; empty when the line that said so was lost.
    pub cwd: String,
    /// The session that it was forked from, or that it follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

/// One line of a session file. Entries are never changed and never removed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Its name.
    pub id: EntryId,
    /// What it comes after; none at a root.
    pub parent_id: Option<EntryId>,
    /// When it was written.
    pub timestamp: Timestamp,
    /// What it says.
    #[serde(flatten)]
    pub kind: EntryKind,
}

/// What an entry says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum EntryKind {
    /// A message is complete (S1 9).
    Message {
        /// The message; contexts and requests share it.
        #[serde(with = "shared")]
        message: Arc<AgentMessage>,
    },
    /// Another model answers from here on.
    ModelChange {
        /// The provider's name in the registry.
        provider: String,
        /// The model's id at its provider.
        model_id: String,
    },
    /// The model thinks more or less deeply from here on.
    ThinkingLevelChange {
        /// How deeply.
        thinking_level: ThinkingLevel,
    },
    /// What comes before here is summarised (S1 6.1).
    Compaction {
        /// The summary.
        summary: String,
        /// The first entry that stays in the context as it is; none when nothing before this one does.
        first_kept: Option<EntryId>,
        /// Tokens in the context before it.
        tokens_before: u64,
    },
    /// A bookmark at an entry (S1 9). It is beside the conversation: the leaf stays where it is.
    Label {
        /// The entry.
        target: EntryId,
        /// What it is called; none takes the label away.
        label: Option<String>,
    },
    /// The leaf moves to an earlier entry; what is appended next comes after that one.
    Branch {
        /// The new leaf; none before everything.
        target: Option<EntryId>,
    },
    /// Something of whoever uses the tree. It stands in the conversation and is no part of the context.
    Custom {
        /// Whose, and what.
        kind: String,
        /// What it says.
        data: Value,
    },
}

impl EntryKind {
    /// The leaf after an entry of this kind, when it was `leaf` before.
    pub(super) fn leaf_after(&self, id: EntryId, leaf: Option<EntryId>) -> Option<EntryId> {
        match self {
            Self::Label { .. } => leaf,
            Self::Branch { target } => *target,
            Self::Message { .. }
            | Self::ModelChange { .. }
            | Self::ThinkingLevelChange { .. }
            | Self::Compaction { .. }
            | Self::Custom { .. } => Some(id),
        }
    }

    /// The entry besides its parent that it names.
    pub(super) fn refers_to(&self) -> Option<EntryId> {
        match self {
            Self::Compaction { first_kept, .. } => *first_kept,
            Self::Label { target, .. } => Some(*target),
            Self::Branch { target } => *target,
            Self::Message { .. }
            | Self::ModelChange { .. }
            | Self::ThinkingLevelChange { .. }
            | Self::Custom { .. } => None,
        }
    }
}

/// A message that is shared is written and read as it is.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::message::AgentMessage;

    pub(super) fn serialize<S: Serializer>(
        message: &Arc<AgentMessage>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        AgentMessage::serialize(message, serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<AgentMessage>, D::Error> {
        AgentMessage::deserialize(deserializer).map(Arc::new)
    }
}

/// The time now.
pub(super) fn now() -> Timestamp {
    Timestamp::from_millis(jiff::Timestamp::now().as_millisecond())
}
