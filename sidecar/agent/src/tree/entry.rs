//! Format of a session file: a header line, then one line per entry.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use pilothouse_domain::Timestamp;
use pilothouse_domain::value::ThinkingLevel;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::files::FileList;
use crate::message::AgentMessage;

/// This code writes this version, and reads no later one.
pub const FORMAT_VERSION: u32 = 1;

/// Id of an entry; unique in its session and all forks of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EntryId(Uuid);

impl EntryId {
    /// Ids sort by creation time.
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
    pub version: u32,
    pub id: String,
    pub timestamp: Timestamp,
    /// Empty if the header line was lost.
    pub cwd: String,
    /// The session from which this one was forked, or which it continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

/// One line of a session file. Entries are never changed or removed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    pub id: EntryId,
    /// The preceding entry. `None` at a root.
    pub parent_id: Option<EntryId>,
    pub timestamp: Timestamp,
    #[serde(flatten)]
    pub kind: EntryKind,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum EntryKind {
    /// A complete message (S1 9).
    Message {
        /// Shared with contexts and requests.
        #[serde(with = "shared")]
        message: Arc<AgentMessage>,
    },
    /// Later replies come from another model.
    ModelChange {
        /// The name in the registry.
        provider: String,
        model_id: String,
    },
    /// Later replies use another thinking level.
    ThinkingLevelChange { thinking_level: ThinkingLevel },
    /// A summary of the earlier conversation (S1 6.1).
    Compaction {
        summary: String,
        /// The first entry that stays in the context, if any.
        first_kept: Option<EntryId>,
        /// Tokens in the context before the compaction.
        tokens_before: u64,
        /// The files of all summarised messages, also of earlier compactions.
        #[serde(default, skip_serializing_if = "FileList::is_empty")]
        files: FileList,
    },
    /// A label of an entry (S1 9). It is not part of the conversation and does not move the leaf.
    Label {
        target: EntryId,
        /// `None` removes it.
        label: Option<String>,
    },
    /// Moves the leaf to an earlier entry. The next entry follows that one.
    Branch {
        /// The new leaf. `None`: before the first entry.
        target: Option<EntryId>,
    },
    Custom {
        /// Identifies the program and the type of its data.
        kind: String,
        data: Value,
    },
}

impl EntryKind {
    /// `leaf` is the one before this entry.
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

    /// The entry that this one refers to, besides its parent.
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

/// Serialises a shared message like the message itself.
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

pub(super) fn now() -> Timestamp {
    Timestamp::from_millis(jiff::Timestamp::now().as_millisecond())
}
