//! Workers claim the runs that they are assigned.

use pilothouse_domain::placement::{ClaimDecision, ClaimedPlace};
use pilothouse_domain::{DomainContext, RunId};
use pilothouse_store::{Commit, Loaded, Placement, PlacementState, WorkerKey, WorkerRecord};
use pilothouse_wire::launch::LaunchRequest;

use crate::placement::changes;
use crate::placement::facts::{claimed_place, worker_offer};
use crate::placement::{AssignmentError, WorkerAssigner};
use crate::unit_of_work::{Decision, RetryPolicy};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// The worker may execute the run.
    Granted(Box<LaunchRequest>),
    /// The run is queued or assigned to another worker.
    HeldByOther,
    RunIsOver,
    /// The run does not exist, or the worker may not execute it.
    Unknown,
}

/// A run that a worker claims.
struct ClaimState {
    worker: Loaded<WorkerRecord>,
    placement: Loaded<Placement>,
    /// Whether the run is still the current one of its session. Not loaded unless the worker has the run.
    is_current: bool,
}

impl WorkerAssigner {
    /// Claims a run for the worker that it is assigned to. The conditional write decides between concurrent claims.
    pub async fn claim(&self, key: &WorkerKey, run: RunId) -> Result<Claim, AssignmentError> {
        let load = async || self.load_claim(key, run).await;
        let decide = |state: Option<ClaimState>, ctx: &mut DomainContext<'_>| {
            let Some(ClaimState { worker, mut placement, is_current }) = state else {
                return Ok(Decision::Unchanged(Claim::Unknown));
            };
            let request = Box::new(placement.value.request.clone());
            match claimed_place(&placement.value, key).claim(is_current) {
                ClaimDecision::HeldByOther => Ok(Decision::Unchanged(Claim::HeldByOther)),
                ClaimDecision::RunIsOver => Ok(Decision::Unchanged(Claim::RunIsOver)),
                ClaimDecision::AlreadyGranted => Ok(Decision::Unchanged(Claim::Granted(request))),
                ClaimDecision::Close => Ok(match changes::close(placement, Some(worker), ctx.now)? {
                    Some(commit) => Decision::Commit(commit, Claim::RunIsOver),
                    None => Decision::Unchanged(Claim::RunIsOver),
                }),
                ClaimDecision::Grant => {
                    placement.value.place = PlacementState::Claimed { worker: key.clone(), at: ctx.now };
                    let mut commit = Commit::new();
                    commit.placement(&placement)?;
                    commit.record_session_worker(request.session_id, key)?;
                    Ok(Decision::Commit(commit, Claim::Granted(request)))
                }
            }
        };
        self.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
    }

    /// Loads a run that the worker may execute.
    async fn load_claim(&self, key: &WorkerKey, run: RunId) -> Result<Option<ClaimState>, AssignmentError> {
        let Some(worker) = self.store.worker(key).await? else { return Ok(None) };
        let Some(placement) = self.store.placement(run).await? else { return Ok(None) };
        if !worker_offer(&worker.value).serves(&placement.value.owner) {
            return Ok(None);
        }
        let has_run =
            matches!(claimed_place(&placement.value, key), ClaimedPlace::Assigned | ClaimedPlace::Claimed);
        let is_current = has_run && self.session_of(&placement.value.request).await?.is_some();
        Ok(Some(ClaimState { worker, placement, is_current }))
    }
}
