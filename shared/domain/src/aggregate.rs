//! The interface that all aggregates except sessions share.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Timestamp, UserId};

/// An aggregate other than a session. It is loaded and committed separately, under its own version.
pub trait Aggregate: Clone + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static {
    type Id: Copy + Display + FromStr + Send + Sync + 'static;

    /// Journal entries of the aggregate hold these events.
    type Event: Clone + Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static;

    /// Kind of the aggregate, such as `chain`. Part of stored keys, so it never changes.
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
