//! Workers claim the runs that they are assigned.

use pilothouse_domain::RunId;
use pilothouse_store::{Commit, CommitError, PlacementState, WorkerKey};
use pilothouse_wire::launch::LaunchRequest;

use crate::placement::assigner::TRIES;
use crate::placement::{AssignmentError, WorkerAssigner};

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
        for attempt in 0..TRIES {
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
            let written = match (is_current, is_claimed) {
                (true, true) => return Ok(Claim::Granted(request)),
                (false, true) => return Ok(Claim::RunIsOver), // its end is reported
                (false, false) => self.close(placement, Some(worker)).await,
                (true, false) => {
                    placement.value.place = PlacementState::Claimed { worker: key.clone(), at: self.now() };
                    let mut commit = Commit::new();
                    commit.placement(&placement)?;
                    commit.home(request.session_id, key)?;
                    self.store.commit(commit).await.map_err(|error: CommitError| error.into())
                }
            };
            match written {
                Ok(()) if is_current => return Ok(Claim::Granted(request)),
                Ok(()) => return Ok(Claim::RunIsOver),
                Err(AssignmentError::Contended) => self.pause(attempt).await,
                Err(error) => return Err(error),
            }
        }
        Err(AssignmentError::Contended)
    }
}
