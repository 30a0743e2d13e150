//! Removes a worker, and ends the runs of a lost one.

use std::collections::BTreeSet;

use pilothouse_domain::{DomainContext, RunId};
use pilothouse_store::{Commit, Loaded, Placement, PlacementState, WorkerKey, WorkerRecord};
use pilothouse_wire::launch::LaunchRequest;

use crate::placement::{AssignmentError, WorkerAssigner};
use crate::problem::Problem;
use crate::unit_of_work::{Decision, RetryPolicy};

impl WorkerAssigner {
    /// Returns whether the worker existed.
    pub async fn remove(&self, key: &WorkerKey, lost: bool) -> Result<bool, Problem> {
        let mut is_repeated = false;
        let attempt = || {
            let was_there = std::mem::replace(&mut is_repeated, true);
            async move {
                let Some(worker) = self.store.worker(key).await? else {
                    return Ok(was_there.then(BTreeSet::new));
                };
                let claimed = self.claimed_by(&worker.value).await?;
                if !claimed.is_empty() {
                    if !lost {
                        return Err(Problem::WorkerHasRuns { runs: claimed.len() });
                    }
                    for request in claimed {
                        // Reported before the release: if the request fails in between, a repeated request reports the run again.
                        self.report_lost(key, &request).await?;
                        self.release(key, request.run_id).await?;
                    }
                    return Err(Problem::VersionConflict); // the releases changed the worker
                }
                let mut commit = Commit::new();
                commit.worker_removed(&worker);
                self.store.commit(commit).await?;
                Ok(Some(worker.value.runs))
            }
        };
        let Some(runs) = RetryPolicy::COMMAND.retry(attempt).await? else { return Ok(false) };
        for run in runs {
            self.take_back(key, run).await?;
        }
        Ok(true)
    }

    /// The runs that a worker has claimed and that have not ended.
    async fn claimed_by(&self, worker: &WorkerRecord) -> Result<Vec<LaunchRequest>, AssignmentError> {
        let mut claimed = Vec::new();
        for run in &worker.runs {
            let placement = self.store.placement(*run).await?.map(|loaded| loaded.value);
            let is_its = |place: &PlacementState| matches!(place, PlacementState::Claimed { worker: by, .. } if *by == worker.key);
            claimed.extend(placement.filter(|placement| is_its(&placement.place)).map(|it| it.request));
        }
        Ok(claimed)
    }

    /// Queues an unclaimed run of the removed worker for another worker. If this fails, the heartbeat of another worker finds the
    /// run.
    async fn take_back(&self, key: &WorkerKey, run: RunId) -> Result<(), AssignmentError> {
        let load = async || Ok(self.store.placement(run).await?);
        let decide = |placement: Option<Loaded<Placement>>, _: &mut DomainContext<'_>| {
            let is_its = |placement: &Loaded<Placement>| matches!(&placement.value.place, PlacementState::Assigned { worker, .. } if worker == key);
            let Some(mut placement) = placement.filter(is_its) else { return Ok(Decision::Unchanged(None)) };
            placement.value.place = PlacementState::Waiting;
            let mut commit = Commit::new();
            commit.placement(&placement)?;
            Ok(Decision::Commit(commit, Some(placement.value.request)))
        };
        match self.unit_of_work().run(RetryPolicy::ONCE, load, decide).await {
            Ok(Some(request)) => self.launch(request).await,
            Ok(None) | Err(AssignmentError::Contended) => Ok(()), // claimed, or given to another
            Err(error) => Err(error),
        }
    }
}
