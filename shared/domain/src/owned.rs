//! Aggregates of an owner beside sessions (S0 8.4: chains, skills, templates): what the store and the functions ask of
//! each alike, and the journal that each leaves behind.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::journal::Cause;
use crate::{EventId, Events, Timestamp, TraceParent, UserId};

/// An aggregate of an owner. It is loaded and committed by itself, under its own version.
pub trait OwnedAggregate: Clone + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Its typed id.
    type Id: Copy + Display + FromStr + Send + Sync + 'static;

    /// What it is, in one word: `chain`, `skill`, `template`. It stands in keys and never changes.
    const KIND: &'static str;

    /// Its id.
    fn id(&self) -> Self::Id;

    /// Its owner.
    fn owner_id(&self) -> &UserId;

    /// Its place among the owner's others. The id, which is by creation time, unless S0 lists by something else.
    fn listing_sort(&self) -> String {
        self.id().to_string()
    }

    /// A name that no other of the same kind and owner may have.
    fn unique_name(&self) -> Option<&str> {
        None
    }

    /// When the clock is to look at it.
    fn due_at(&self) -> Option<Timestamp> {
        None
    }

    /// Parts that left the aggregate in this change. The commit writes each as a record of its own, so that what is over
    /// does not stand in the aggregate for ever.
    fn departed(&self) -> Vec<Departed> {
        Vec::new()
    }
}

/// A part that left its aggregate and stays as a record.
#[derive(Debug, Clone, PartialEq)]
pub struct Departed {
    /// What it is listed under; it stands in keys and never changes.
    pub group: &'static str,
    /// Its id, by which the records of a group are ordered.
    pub id: String,
    /// What it is.
    pub value: serde_json::Value,
}

/// One entry of the journal of an [`OwnedAggregate`]: the outbox of one commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnedEntry {
    /// The entry's own id; reactions are idempotent by it.
    pub id: EventId,
    /// [`OwnedAggregate::KIND`].
    pub kind: String,
    /// The aggregate.
    pub aggregate_id: String,
    /// Its owner.
    pub owner_id: UserId,
    /// Its place: the version that the aggregate has with it.
    pub sequence: u64,
    /// When it was committed.
    pub at: Timestamp,
    /// What caused it.
    pub cause: Cause,
    /// What happened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Events,
    /// Where what caused it stands in a trace.
    #[serde(default, deserialize_with = "TraceParent::lenient", skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<TraceParent>,
}
