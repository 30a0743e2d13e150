//! Heartbeats of workers, which register workers and report their runs.

use std::collections::{BTreeMap, BTreeSet};

use pilothouse_domain::{DomainContext, RunId, Timestamp};
use pilothouse_store::{Commit, Loaded, PlacementState, WorkerKey, WorkerRecord};
use pilothouse_wire::worker::{Heartbeat, RunState};

use crate::placement::{AssignmentError, WorkerAssigner};
use crate::queues;
use crate::unit_of_work::{Decision, RetryPolicy};

impl WorkerAssigner {
    /// Returns the runs that the worker reports as alive although they ended, because they were declared lost (decision 13).
    pub async fn lost_runs(
        &self,
        key: &WorkerKey,
        heartbeat: &Heartbeat,
    ) -> Result<Vec<RunId>, AssignmentError> {
        let mut lost = Vec::new();
        for run in heartbeat.runs.iter().filter(|run| run.state == RunState::Alive) {
            let place = self.store.placement(run.run_id).await?.map(|placement| placement.value.place);
            if matches!(&place, Some(PlacementState::Ended { worker: Some(by), .. }) if by == key) {
                lost.push(run.run_id);
            }
        }
        Ok(lost)
    }

    /// Records a heartbeat. A new worker gets a queue first.
    pub async fn record_heartbeat(
        &self,
        key: &WorkerKey,
        heartbeat: &Heartbeat,
    ) -> Result<(), AssignmentError> {
        let load = async || {
            let known = self.store.worker(key).await?;
            if known.is_none() {
                queues::create_worker(self.broker.as_ref(), key, self.heartbeats.alive).await?;
            }
            Ok(known)
        };
        let decide = |known: Option<Loaded<WorkerRecord>>, ctx: &mut DomainContext<'_>| {
            let mut worker = known.unwrap_or_else(|| Loaded::new(new_worker(key, heartbeat, ctx.now)));
            let record = &mut worker.value;
            record.shared = heartbeat.shared;
            record.labels.clone_from(&heartbeat.labels);
            record.workspace.clone_from(&heartbeat.workspace);
            record.capacity = heartbeat.capacity;
            record.draining = heartbeat.draining;
            record.reported = heartbeat.runs.iter().map(|run| (run.run_id, run.state)).collect();
            record.seen_at = ctx.now;
            let mut commit = Commit::new();
            commit.worker(&worker)?;
            Ok(Decision::Commit(commit, ()))
        };
        self.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
    }
}

/// A worker that sends its first heartbeat.
fn new_worker(key: &WorkerKey, heartbeat: &Heartbeat, now: Timestamp) -> WorkerRecord {
    WorkerRecord {
        key: key.clone(),
        shared: heartbeat.shared,
        labels: heartbeat.labels.clone(),
        workspace: heartbeat.workspace.clone(),
        capacity: heartbeat.capacity,
        draining: heartbeat.draining,
        runs: BTreeSet::new(),
        reported: BTreeMap::new(),
        seen_at: now,
        registered_at: now,
    }
}
