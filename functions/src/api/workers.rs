//! Workers, as their owner sees them.

use std::collections::{BTreeMap, BTreeSet};

use pilothouse_domain::{RunId, Timestamp};
use pilothouse_store::WorkerRecord;
use pilothouse_wire::worker::WorkerId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerView {
    /// Its name among the owner's.
    pub id: WorkerId,
    /// Whether it was heard lately. One that was not is given nothing.
    pub alive: bool,
    /// Whether it is about to end, and is given nothing more.
    pub draining: bool,
    /// Whether it serves everybody.
    pub shared: bool,
    /// What it has.
    pub labels: BTreeMap<String, String>,
    /// How many runs it takes at once.
    pub capacity: u32,
    /// The runs that it was given and that are not over.
    pub runs: BTreeSet<RunId>,
    /// Its last heartbeat.
    pub seen_at: Timestamp,
    /// Its first heartbeat.
    pub registered_at: Timestamp,
}

impl WorkerView {
    /// The view of a worker that was heard lately, or not.
    pub fn of(worker: &WorkerRecord, alive: bool) -> Self {
        Self {
            id: worker.key.id.clone(),
            alive,
            draining: worker.draining,
            shared: worker.shared,
            labels: worker.labels.clone(),
            capacity: worker.capacity,
            runs: worker.runs.clone(),
            seen_at: worker.seen_at,
            registered_at: worker.registered_at,
        }
    }
}
