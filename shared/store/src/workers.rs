//! Workers that stand elsewhere, and which run is whose: what central assignment is decided by.
//!
//! A worker belongs to its owner's partition, so that its name can clash with none of another's. The placement of a run
//! stands under the run: it waits, is given to a worker, claimed by it, or over. Each change is guarded by the versions
//! of what it was decided by, and a run that is given changes its worker in the same transaction: no two assignments
//! exceed a capacity, and no run is claimed twice (ruling 7).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pilothouse_domain::{AgentSessionId, RunId, Timestamp, UserId};
use pilothouse_wire::launch::LaunchRequest;
use pilothouse_wire::worker::{RunState, WorkerId};
use serde::{Deserialize, Serialize};

use crate::commit::{Commit, Loaded, Purpose};
use crate::error::StoreError;
use crate::layout;
use crate::repository::{Listing, Store, read, write};
use crate::table::{Condition, Index, Item, Key, Position, Query, SortRange, Write};

/// How long it is remembered whose a run was that is over.
const OVER_KEPT: Duration = Duration::from_hours(7 * 24);

/// Names a worker.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerKey {
    /// Whose it is.
    pub owner: UserId,
    /// Its name among those of its owner.
    pub id: WorkerId,
}

/// A worker, as its last heartbeat and the control plane left it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerRecord {
    /// Which.
    #[serde(flatten)]
    pub key: WorkerKey,
    /// Whether it serves everybody.
    pub shared: bool,
    /// What it has.
    pub labels: BTreeMap<String, String>,
    /// How many runs it takes at once.
    pub capacity: u32,
    /// Whether it is about to end.
    pub draining: bool,
    /// The runs that it was given and that are not over.
    pub runs: BTreeSet<RunId>,
    /// The runs that it said it has in hand.
    pub reported: BTreeMap<RunId, RunState>,
    /// Its last heartbeat.
    pub seen_at: Timestamp,
    /// Its first heartbeat.
    pub registered_at: Timestamp,
}

impl WorkerRecord {
    /// Whether it was heard after `since` and takes more.
    pub fn takes_more_since(&self, since: Timestamp) -> bool {
        self.seen_at >= since && !self.draining
    }

    /// How many more runs it takes.
    pub fn room(&self) -> usize {
        (self.capacity as usize).saturating_sub(self.runs.len())
    }
}

/// Where a run is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Place {
    /// Nobody has it: it waits for a worker with room.
    Waiting,
    /// It was given to a worker, which has not claimed it.
    Given {
        /// Which.
        worker: WorkerKey,
        /// Since when.
        at: Timestamp,
    },
    /// A worker has claimed it.
    Claimed {
        /// Which.
        worker: WorkerKey,
        /// Since when.
        at: Timestamp,
    },
    /// It is over, or will never start.
    Over {
        /// Who had claimed it.
        worker: Option<WorkerKey>,
        /// Since when.
        at: Timestamp,
    },
}

/// A run and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// Whose session it is of.
    pub owner: UserId,
    /// What is to be run.
    pub request: LaunchRequest,
    /// Where.
    pub place: Place,
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
        Place::Waiting | Place::Given { .. } => {
            item.listing = Some(Key::new(layout::waiting_of(&placement.owner), run.to_string()));
            item.due = Some(Key::new(layout::WAITING, run.to_string()));
        }
        Place::Claimed { .. } => {}
        Place::Over { at, .. } => item.expires_at = Some(*at + OVER_KEPT),
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

    /// A worker.
    pub fn worker(&mut self, worker: &Loaded<WorkerRecord>) -> Result<(), StoreError> {
        self.guard(worker_item(&worker.value)?, worker.version);
        Ok(())
    }

    /// A worker is no more.
    pub fn worker_removed(&mut self, worker: &Loaded<WorkerRecord>) {
        let key = layout::worker(&worker.value.key);
        self.writes.push((Write::Delete(key, condition(worker.version)), Purpose::Guard));
    }

    /// Where a run is.
    pub fn placement(&mut self, placement: &Loaded<Placement>) -> Result<(), StoreError> {
        self.guard(placement_item(&placement.value)?, placement.version);
        Ok(())
    }

    /// Where the folders of a session are from now on (ruling 23).
    pub fn home(&mut self, session: AgentSessionId, worker: &WorkerKey) -> Result<(), StoreError> {
        let item = write(layout::home(session), "home", worker)?;
        self.writes.push((Write::Put(item, Condition::Always), Purpose::Record));
        Ok(())
    }
}

impl Store {
    /// A worker.
    pub async fn worker(&self, key: &WorkerKey) -> Result<Option<Loaded<WorkerRecord>>, StoreError> {
        self.load(&layout::worker(key)).await
    }

    /// The workers of an owner by name, read consistently.
    pub async fn workers(
        &self,
        owner: &UserId,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<Loaded<WorkerRecord>>, StoreError> {
        self.list_loaded(Query {
            index: None,
            partition: layout::workers_partition(owner),
            range: SortRange::All,
            descending: false,
            limit,
            after,
        })
        .await
    }

    /// The workers that serve everybody. The index may lag: commit under the version.
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

    /// Where a run is; nothing when no worker was ever asked to run it.
    pub async fn placement(&self, run: RunId) -> Result<Option<Loaded<Placement>>, StoreError> {
        self.load(&layout::placement(run)).await
    }

    /// Runs that nobody has claimed, of one owner or of all, oldest first. The index may lag: commit under the version.
    pub async fn unclaimed(
        &self,
        owner: Option<&UserId>,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<Loaded<Placement>>, StoreError> {
        let (index, partition) = match owner {
            Some(owner) => (Index::Listing, layout::waiting_of(owner)),
            None => (Index::Due, layout::WAITING.to_owned()),
        };
        let query =
            Query { index: Some(index), partition, range: SortRange::All, descending: false, limit, after };
        self.list_loaded(query).await
    }

    /// The worker that has the folders of a session.
    pub async fn home(&self, session: AgentSessionId) -> Result<Option<WorkerKey>, StoreError> {
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
