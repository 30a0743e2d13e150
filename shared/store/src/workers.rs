//! Workers on other machines, and the placement of runs on them.
//!
//! A worker is in its owner's partition, so names of different owners cannot clash. A placement is stored under its run: the run
//! waits, is assigned to a worker, is claimed by it, or has ended. Each change is guarded by the versions of everything that it depends on,
//! and an assignment changes the worker in the same transaction. Concurrent assignments therefore cannot exceed a worker's
//! capacity, and a run is never claimed twice (decision 7).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pilothouse_domain::project_agent::WorkspaceOffer;
use pilothouse_domain::{AgentSessionId, RunId, Timestamp, UserId};
use pilothouse_wire::launch::LaunchRequest;
use pilothouse_wire::worker::RunState;
use serde::{Deserialize, Serialize};

use crate::commit::{Commit, Loaded, Purpose};
use crate::error::StoreError;
pub use crate::ids::WorkerKey;
use crate::layout;
use crate::repository::{Listing, Store, read, write};
use crate::table::{Condition, Index, Item, Key, Position, Query, SortRange, Write};

const ENDED_RUN_RETENTION: Duration = Duration::from_hours(7 * 24);

/// A worker according to its last heartbeat and the assignments of the control plane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerRecord {
    #[serde(flatten)]
    pub key: WorkerKey,
    /// Whether it serves all owners.
    pub shared: bool,
    pub labels: BTreeMap<String, String>,
    /// The workspace that it offers to agents.
    #[serde(default)]
    pub workspace: WorkspaceOffer,
    pub capacity: u32,
    /// Whether it is shutting down.
    pub draining: bool,
    /// Runs that are assigned to it and have not ended.
    pub runs: BTreeSet<RunId>,
    /// Runs that it reported.
    pub reported: BTreeMap<RunId, RunState>,
    pub seen_at: Timestamp,
    pub registered_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum PlacementState {
    Waiting,
    /// Assigned to a worker that has not claimed it yet.
    #[serde(rename = "given")]
    Assigned {
        worker: WorkerKey,
        at: Timestamp,
    },
    Claimed {
        worker: WorkerKey,
        at: Timestamp,
    },
    #[serde(rename = "over")]
    Ended {
        /// The worker that had claimed it.
        worker: Option<WorkerKey>,
        at: Timestamp,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    pub owner: UserId,
    pub request: LaunchRequest,
    pub place: PlacementState,
}

fn worker_item(worker: &WorkerRecord) -> Result<Item, StoreError> {
    let mut item = write(layout::worker(&worker.key), "worker", worker)?;
    item.listing = worker.shared.then(|| layout::shared_worker(&worker.key));
    Ok(item)
}

fn placement_item(placement: &Placement) -> Result<Item, StoreError> {
    let run = placement.request.run_id;
    let mut item = write(layout::placement(run), "placement", placement)?;
    match &placement.place {
        PlacementState::Waiting | PlacementState::Assigned { .. } => {
            item.listing = Some(Key::new(layout::waiting_partition(&placement.owner), run.to_string()));
            item.due = Some(Key::new(layout::WAITING, run.to_string()));
        }
        PlacementState::Claimed { .. } => {}
        PlacementState::Ended { at, .. } => item.expires_at = Some(*at + ENDED_RUN_RETENTION),
    }
    Ok(item)
}

fn condition(version: u64) -> Condition {
    if version == 0 { Condition::Absent } else { Condition::Version(version) }
}

impl Commit {
    fn guard(&mut self, mut item: Item, loaded: u64) {
        item.version = loaded + 1;
        self.writes.push((Write::Put(item, condition(loaded)), Purpose::Guard));
    }

    pub fn worker(&mut self, worker: &Loaded<WorkerRecord>) -> Result<(), StoreError> {
        self.guard(worker_item(&worker.value)?, worker.version);
        Ok(())
    }

    pub fn worker_removed(&mut self, worker: &Loaded<WorkerRecord>) {
        let key = layout::worker(&worker.value.key);
        self.writes.push((Write::Delete(key, condition(worker.version)), Purpose::Guard));
    }

    pub fn placement(&mut self, placement: &Loaded<Placement>) -> Result<(), StoreError> {
        self.guard(placement_item(&placement.value)?, placement.version);
        Ok(())
    }

    /// Records the worker that has the folders of a session (decision 23).
    pub fn record_session_worker(
        &mut self,
        session: AgentSessionId,
        worker: &WorkerKey,
    ) -> Result<(), StoreError> {
        let item = write(layout::home(session), "home", worker)?;
        self.writes.push((Write::Put(item, Condition::Always), Purpose::Record));
        Ok(())
    }
}

impl Store {
    pub async fn worker(&self, key: &WorkerKey) -> Result<Option<Loaded<WorkerRecord>>, StoreError> {
        self.load(&layout::worker(key)).await
    }

    /// Workers of an owner by name, read consistently.
    pub async fn workers(
        &self,
        owner: &UserId,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<Loaded<WorkerRecord>>, StoreError> {
        self.list_loaded(Query {
            after,
            ..Query::new(layout::workers_partition(owner), SortRange::All, limit)
        })
        .await
    }

    /// Workers that serve all owners. The index may lag: commit under the version.
    pub async fn shared_workers(
        &self,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<Loaded<WorkerRecord>>, StoreError> {
        self.list_loaded(Query {
            index: Some(Index::Listing),
            partition: layout::SHARED_WORKERS.to_owned(),
            range: SortRange::All,
            descending: false,
            limit,
            after,
        })
        .await
    }

    /// The placement of a run; `None` if no worker was ever requested for it.
    pub async fn placement(&self, run: RunId) -> Result<Option<Loaded<Placement>>, StoreError> {
        self.load(&layout::placement(run)).await
    }

    /// Unclaimed runs of one owner or of all, oldest first. The index may lag: commit under the version.
    pub async fn unclaimed(
        &self,
        owner: Option<&UserId>,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<Loaded<Placement>>, StoreError> {
        let (index, partition) = match owner {
            Some(owner) => (Index::Listing, layout::waiting_partition(owner)),
            None => (Index::Due, layout::WAITING.to_owned()),
        };
        let query =
            Query { index: Some(index), partition, range: SortRange::All, descending: false, limit, after };
        self.list_loaded(query).await
    }

    /// The worker that has the folders of a session.
    pub async fn session_worker(&self, session: AgentSessionId) -> Result<Option<WorkerKey>, StoreError> {
        Ok(self.load(&layout::home(session)).await?.map(|loaded| loaded.value))
    }

    async fn list_loaded<T: serde::de::DeserializeOwned>(
        &self,
        query: Query,
    ) -> Result<Listing<Loaded<T>>, StoreError> {
        let page = self.table.query(&query).await?;
        let loaded = |item: &Item| Ok(Loaded { value: read(item)?, version: item.version });
        Ok(Listing {
            items: page.items.iter().map(loaded).collect::<Result<_, StoreError>>()?,
            next: page.next,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Placements that were stored under the first names are read.
    #[test]
    fn renamed_states_keep_their_stored_names() {
        let assigned =
            r#"{ "kind": "given", "worker": { "owner": "o", "id": "w" }, "at": "2026-11-21T20:11:35.696Z" }"#;
        let ended = r#"{ "kind": "over", "worker": null, "at": "2026-11-21T20:11:35.696Z" }"#;
        let parsed = |stored| serde_json::from_str::<PlacementState>(stored).unwrap();
        assert!(matches!(parsed(assigned), PlacementState::Assigned { .. }));
        assert!(matches!(parsed(ended), PlacementState::Ended { .. }));
    }
}
