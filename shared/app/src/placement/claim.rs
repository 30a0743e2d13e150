//! Workers claim the runs that they are assigned.

use pilothouse_domain::RunId;
use pilothouse_store::{Commit, PlacementState, WorkerKey};
use pilothouse_wire::launch::LaunchRequest;

use crate::placement::{AssignmentError, WorkerAssigner};
use crate::unit_of_work::RetryPolicy;

/// The outcome of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// The worker may execute the run.
    Granted(LaunchRequest),
    /// The run is queued or assigned to another worker.
    HeldByOther,
    /// The run has ended.
    RunIsOver,
    /// The run does not exist, or the worker may not execute it.
    Unknown,
}

impl WorkerAssigner {
    /// Claims a run for the worker that it is assigned to. The conditional write decides between concurrent claims.
    pub async fn claim(&self, key: &WorkerKey, run: RunId) -> Result<Claim, AssignmentError> {
        let attempt = async || {
            let Some(worker) = self.store.worker(key).await? else { return Ok(Claim::Unknown) };
            let Some(mut placement) = self.store.placement(run).await? else { return Ok(Claim::Unknown) };
            if !worker.value.shared && placement.value.owner != key.owner {
                return Ok(Claim::Unknown);
            }
            let is_claimed = match &placement.value.place {
                PlacementState::Given { worker, .. } if worker == key => false,
                PlacementState::Claimed { worker, .. } if worker == key => true,
                PlacementState::Over { .. } => return Ok(Claim::RunIsOver),
                PlacementState::Waiting | PlacementState::Given { .. } | PlacementState::Claimed { .. } => {
                    return Ok(Claim::HeldByOther);
                }
            };
            let request = placement.value.request.clone();
            let is_current = self.session_of(&request).await?.is_some();
            match (is_current, is_claimed) {
                (_, true) => {} // if its session has moved on, its end is reported
                (false, false) => self.close(placement, Some(worker)).await?,
                (true, false) => {
                    placement.value.place = PlacementState::Claimed { worker: key.clone(), at: self.now() };
                    let mut commit = Commit::new();
                    commit.placement(&placement)?;
                    commit.home(request.session_id, key)?;
                    self.store.commit(commit).await?;
                }
            }
            Ok(if is_current { Claim::Granted(request) } else { Claim::RunIsOver })
        };
        RetryPolicy::EVENT.retry(attempt).await
    }
}
