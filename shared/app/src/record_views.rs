//! Views made from store records.

use std::collections::BTreeMap;

use pilothouse_api::operations::RedriveView;
use pilothouse_api::pool::PoolView;
use pilothouse_api::workers::WorkerView;
use pilothouse_domain::pool::SessionPool;
use pilothouse_domain::{RunId, Timestamp};
use pilothouse_store::{Redrive, Store, StoreError, WorkerRecord};

/// Includes the connection state of the runs that hold slots.
pub async fn pool(store: &Store, pool: &SessionPool, version: u64) -> Result<PoolView, StoreError> {
    Ok(pool_with(pool, version, &unreachable_leases(store, pool).await?))
}

/// Without reachable runs.
pub type UnreachableSince = BTreeMap<RunId, Timestamp>;

pub async fn unreachable_leases(store: &Store, pool: &SessionPool) -> Result<UnreachableSince, StoreError> {
    let mut unreachable = UnreachableSince::new();
    for (session_id, lease) in pool.leases() {
        let session = store.session(*session_id).await?;
        let since = session
            .filter(|session| session.run().is_some_and(|run| run.id == lease.run_id))
            .and_then(|session| session.unreachable_since());
        unreachable.extend(since.map(|since| (lease.run_id, since)));
    }
    Ok(unreachable)
}

pub fn pool_with(pool: &SessionPool, version: u64, unreachable: &UnreachableSince) -> PoolView {
    let mut view = PoolView::of(pool, version);
    for lease in &mut view.leases {
        lease.unreachable_since = unreachable.get(&lease.run_id).copied();
    }
    view
}

/// `alive` states whether the heartbeats of the worker arrive.
pub fn worker(worker: &WorkerRecord, alive: bool) -> WorkerView {
    WorkerView {
        id: worker.key.id.clone(),
        alive,
        draining: worker.draining,
        shared: worker.shared,
        labels: worker.labels.clone(),
        workspace: worker.workspace.clone(),
        capacity: worker.capacity,
        runs: worker.runs.clone(),
        seen_at: worker.seen_at,
        registered_at: worker.registered_at,
    }
}

pub fn redrive(redrive: Redrive) -> RedriveView {
    let Redrive { id, at, by, queue, letters, bytes, requests } = redrive;
    RedriveView { id, at, by, queue, letters, bytes, requests }
}
