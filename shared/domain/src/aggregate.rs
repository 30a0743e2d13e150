//! The interface that chains, skills and templates (S0 8.4) share, and the journal entry that their commits write.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::journal::Cause;
use crate::{EventId, Events, Timestamp, TraceParent, UserId};

/// An aggregate other than a session. It is loaded and committed separately, under its own version.
pub trait Aggregate: Clone + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static {
    type Id: Copy + Display + FromStr + Send + Sync + 'static;

    /// Kind of the aggregate: `chain`, `skill` or `template`. Part of stored keys, so it never changes.
    const KIND: &'static str;

    fn id(&self) -> Self::Id;

    fn owner_id(&self) -> &UserId;

    /// Sort key in the owner's list. The default is the id, which sorts by creation time.
    fn listing_sort(&self) -> String {
        self.id().to_string()
    }

    /// Name that must be unique among the owner's aggregates of the same kind.
    fn unique_name(&self) -> Option<&str> {
        None
    }

    /// When the clock next processes the aggregate.
    fn due_at(&self) -> Option<Timestamp> {
        None
    }

    /// Parts that were removed from the aggregate in this change. The commit stores each as a separate record, so that the
    /// aggregate stays small.
    fn archived_parts(&self) -> Vec<ArchivedPart> {
        Vec::new()
    }
}

/// A part that was removed from its aggregate and is kept as a record.
#[derive(Debug, Clone, PartialEq)]
pub struct ArchivedPart {
    /// Group under which the record is listed. Part of stored keys, so it never changes.
    pub group: &'static str,
    /// Id of the record; records of a group are sorted by it.
    pub id: String,
    pub value: serde_json::Value,
}

/// A journal entry of an [`Aggregate`]. Each commit writes one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AggregateJournalEntry {
    /// Id of the entry. Reactions use it to be idempotent.
    pub id: EventId,
    /// [`Aggregate::KIND`].
    pub kind: String,
    pub aggregate_id: String,
    pub owner_id: UserId,
    /// The version of the aggregate that this commit wrote.
    pub sequence: u64,
    pub at: Timestamp,
    pub cause: Cause,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Events,
    /// Trace context of the cause.
    #[serde(default, deserialize_with = "TraceParent::lenient", skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<TraceParent>,
}
