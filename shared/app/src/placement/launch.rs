//! Launches: a new run is assigned to the least loaded worker that fits, or waits for one.

use pilothouse_domain::DomainContext;
use pilothouse_domain::placement::Candidates;
use pilothouse_store::{Commit, Loaded, Placement, PlacementState, WorkerRecord};
use pilothouse_wire::launch::LaunchRequest;

use crate::placement::changes::{self, AssignmentOutcome, LaunchOrder};
use crate::placement::facts::{run_needs, session_folders, worker_offer};
use crate::placement::{AssignmentError, WorkerAssigner};
use crate::unit_of_work::{Decision, RetryPolicy};

/// The number of workers per read.
const PAGE: usize = 100;

/// The placement of a run that is launched.
enum LaunchState {
    /// The session has moved on, a worker has claimed the run, or the run is over.
    Settled,
    /// An earlier launch assigned the run, and may not have sent the order.
    Assigned(LaunchOrder),
    Waiting {
        placement: Box<Loaded<Placement>>,
        /// The worker that the rules choose.
        worker: Option<Loaded<WorkerRecord>>,
    },
}

impl WorkerAssigner {
    /// Assigns a run to a worker, or queues it until one is available. If the run is already assigned, the order to the worker is
    /// sent again.
    pub async fn launch(&self, request: LaunchRequest) -> Result<(), AssignmentError> {
        let load = async || self.load_launch(&request).await;
        let decide = |state: LaunchState, ctx: &mut DomainContext<'_>| match state {
            LaunchState::Settled => Ok(Decision::Unchanged(AssignmentOutcome::Unchanged)),
            LaunchState::Assigned(order) => Ok(Decision::Unchanged(AssignmentOutcome::OrderPending(order))),
            LaunchState::Waiting { placement, worker: Some(worker) } => {
                let (commit, order) = changes::assign(*placement, worker, None, ctx.now)?;
                Ok(Decision::Commit(commit, AssignmentOutcome::Assigned(order)))
            }
            LaunchState::Waiting { placement, worker: None } => {
                if placement.version > 0 {
                    return Ok(Decision::Unchanged(AssignmentOutcome::Unchanged)); // it is already queued
                }
                let mut commit = Commit::new();
                commit.placement(&placement)?;
                Ok(Decision::Commit(commit, AssignmentOutcome::Queued))
            }
        };
        let outcome = self.unit_of_work().run(RetryPolicy::EVENT, load, decide).await?;
        self.follow_assignment(request.run_id, outcome).await
    }

    async fn load_launch(&self, request: &LaunchRequest) -> Result<LaunchState, AssignmentError> {
        let Some(session) = self.session_of(request).await? else { return Ok(LaunchState::Settled) };
        let placement = match self.store.placement(request.run_id).await? {
            None => Loaded::new(Placement {
                owner: session.owner_id().clone(),
                request: request.clone(),
                place: PlacementState::Waiting,
            }),
            Some(known) => match known.value.place {
                PlacementState::Waiting => known,
                PlacementState::Assigned { worker, at } => {
                    let request = known.value.request;
                    return Ok(LaunchState::Assigned(LaunchOrder { worker, request, at }));
                }
                PlacementState::Claimed { .. } | PlacementState::Ended { .. } => {
                    return Ok(LaunchState::Settled);
                }
            },
        };
        let worker = self.choose(&placement.value).await?;
        Ok(LaunchState::Waiting { placement: Box::new(placement), worker })
    }

    /// Chooses a worker ([`PlacementRules::candidates`]). Shared workers are read only if no worker of the owner fits.
    async fn choose(&self, placement: &Placement) -> Result<Option<Loaded<WorkerRecord>>, AssignmentError> {
        let home = self.home_of(placement.request.session_id).await?;
        match self.rules().candidates(&session_folders(home.as_ref()), &run_needs(placement)) {
            Candidates::FolderWorker => return Ok(home),
            Candidates::None => return Ok(None),
            Candidates::LeastLoaded => {}
        }
        let mut best = None;
        let mut after = None;
        loop {
            let page = self.store.workers(&placement.owner, PAGE, after).await?;
            best = self.least_loaded(best, page.items, placement);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        while best.is_none() {
            let page = self.store.shared_workers(PAGE, after).await?;
            best = self.least_loaded(best, page.items, placement);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        Ok(best)
    }

    fn least_loaded(
        &self,
        best: Option<Loaded<WorkerRecord>>,
        more: Vec<Loaded<WorkerRecord>>,
        placement: &Placement,
    ) -> Option<Loaded<WorkerRecord>> {
        self.rules().least_loaded(best, more, |worker| worker_offer(&worker.value), &run_needs(placement))
    }
}
