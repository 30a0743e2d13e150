//! Assigns pending runs to a worker that sends a heartbeat: queued launches, and those that a vanished worker never claimed.

use pilothouse_domain::placement::{OfferDecision, OfferedRun, PlacementRules, Reassignment};
use pilothouse_domain::{DomainContext, RunId};
use pilothouse_store::{Commit, Loaded, Placement, PlacementState, WorkerKey, WorkerRecord};

use crate::placement::changes::{self, AssignmentOutcome, LaunchOrder};
use crate::placement::facts::{current_assignment, run_needs, session_folders, worker_offer};
use crate::placement::{AssignmentError, WorkerAssigner};
use crate::unit_of_work::{Decision, RetryPolicy};

/// Launches per read. One heartbeat examines [`LOOKED_AT`] at most.
const PAGE: usize = 50;
const LOOKED_AT: usize = 500;

/// A run that is offered to a worker, with everything that the rules ask for.
struct OfferState {
    /// The rules at the time of the reads.
    rules: PlacementRules,
    placement: Loaded<Placement>,
    /// The other worker that the run is assigned to.
    holder: Option<Loaded<WorkerRecord>>,
    /// Whether the run is still the current one of its session.
    is_current: bool,
    /// The worker that has the folders of the session.
    home: Option<Loaded<WorkerRecord>>,
}

impl OfferState {
    fn decide(&self, worker: &WorkerRecord) -> OfferDecision {
        let run = OfferedRun {
            assignment: current_assignment(&self.placement.value, worker, self.holder.as_ref()),
            needs: run_needs(&self.placement.value),
            is_current: self.is_current,
            folders: session_folders(self.home.as_ref()),
        };
        self.rules.offer(&worker_offer(worker), &run)
    }
}

/// A worker with a run that it may have claimed.
struct ReleaseState {
    worker: Option<Loaded<WorkerRecord>>,
    /// None: the worker has not claimed the run.
    placement: Option<Loaded<Placement>>,
}

impl WorkerAssigner {
    /// Assigns unclaimed runs to a worker while it has capacity, oldest first.
    pub async fn assign_pending(&self, key: &WorkerKey) -> Result<(), AssignmentError> {
        let Some(mut worker) = self.store.worker(key).await? else { return Ok(()) };
        let is_known = |run| worker.value.reported.contains_key(run);
        let has_reported_all = worker.value.runs.iter().all(is_known);
        if !self.rules().may_offer_to(&worker_offer(&worker.value), has_reported_all) {
            return Ok(());
        }
        let (mut after, mut looked_at) = (None, 0);
        while looked_at < LOOKED_AT {
            let owner = (!worker.value.shared).then_some(&key.owner);
            let page = self.store.unclaimed(owner, PAGE, after).await?;
            looked_at += page.items.len();
            for placement in page.items {
                let run = placement.value.request.run_id;
                match self.offer(&worker, placement).await {
                    Ok(outcome) => {
                        if matches!(outcome, AssignmentOutcome::Assigned(_)) {
                            worker.value.runs.insert(run);
                            worker.version += 1;
                        }
                        self.follow_assignment(run, outcome).await?;
                    }
                    // Another worker received the run, or the worker was changed.
                    Err(AssignmentError::Contended) => {
                        let Some(again) = self.store.worker(key).await? else { return Ok(()) };
                        worker = again;
                    }
                    Err(error) => return Err(error),
                }
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        Ok(())
    }

    async fn offer(
        &self,
        worker: &Loaded<WorkerRecord>,
        placement: Loaded<Placement>,
    ) -> Result<AssignmentOutcome, AssignmentError> {
        let load = async || self.load_offer(&worker.value, placement.clone()).await;
        let decide = |state: OfferState, ctx: &mut DomainContext<'_>| {
            let decision = state.decide(&worker.value);
            let OfferState { placement, holder, .. } = state;
            match decision {
                OfferDecision::Leave => Ok(Decision::Unchanged(AssignmentOutcome::Unchanged)),
                OfferDecision::ResendOrder { at } => {
                    let (worker, request) = (worker.value.key.clone(), placement.value.request);
                    let order = LaunchOrder { worker, request, at };
                    Ok(Decision::Unchanged(AssignmentOutcome::OrderPending(order)))
                }
                OfferDecision::Close => Ok(match changes::close(placement, holder, ctx.now)? {
                    Some(commit) => Decision::Commit(commit, AssignmentOutcome::Unchanged),
                    None => Decision::Unchanged(AssignmentOutcome::Unchanged),
                }),
                OfferDecision::Assign => {
                    let (commit, order) = changes::assign(placement, worker.clone(), holder, ctx.now)?;
                    Ok(Decision::Commit(commit, AssignmentOutcome::Assigned(order)))
                }
            }
        };
        self.unit_of_work().run(RetryPolicy::ONCE, load, decide).await
    }

    /// Loads what an offer depends on. Reads nothing more as soon as the rules refuse the offer.
    async fn load_offer(
        &self,
        worker: &WorkerRecord,
        placement: Loaded<Placement>,
    ) -> Result<OfferState, AssignmentError> {
        let rules = self.rules();
        let holder = match &placement.value.place {
            PlacementState::Assigned { worker: holder, .. } if *holder != worker.key => {
                self.store.worker(holder).await?
            }
            _ => None,
        };
        let mut state = OfferState { rules, placement, holder, is_current: false, home: None };
        let current = current_assignment(&state.placement.value, worker, state.holder.as_ref());
        if rules.reassignment(&current) != Reassignment::Possible {
            return Ok(state);
        }
        state.is_current = self.session_of(&state.placement.value.request).await?.is_some();
        let needs = run_needs(&state.placement.value);
        if state.is_current && rules.fits_returning(&worker_offer(worker), &needs) {
            state.home = self.home_of(state.placement.value.request.session_id).await?;
        }
        Ok(state)
    }

    /// Reconciles the assigned runs with those that the worker reported. An order for an unclaimed run is still on the worker's
    /// queue. A claimed run that the worker does not know is lost with its folders, so its end is reported.
    pub async fn reconcile(&self, key: &WorkerKey) -> Result<(), AssignmentError> {
        let Some(worker) = self.store.worker(key).await? else { return Ok(()) };
        let unknown = worker.value.runs.iter().filter(|run| !worker.value.reported.contains_key(run));
        for run in unknown {
            let placement = self.store.placement(*run).await?;
            match placement.as_ref().map(|known| (&known.value, &known.value.place)) {
                Some((_, PlacementState::Assigned { worker, .. })) if worker == key => {}
                Some((known, PlacementState::Claimed { worker, at })) if worker == key => {
                    if *at + self.heartbeats.alive < self.now() {
                        tracing::warn!(%run, worker = %key.id, "a worker lost a run that it had claimed");
                        self.report_over(&known.request, "its worker no longer knows it").await?;
                        self.release(key, *run).await?;
                    }
                }
                _ => self.release(key, *run).await?,
            }
        }
        Ok(())
    }

    /// Removes an ended run from a worker. Runs of other workers are left alone.
    pub async fn release(&self, key: &WorkerKey, run: RunId) -> Result<(), AssignmentError> {
        let load = async || {
            let worker = self.store.worker(key).await?;
            let is_its = |placement: &Loaded<Placement>| matches!(&placement.value.place, PlacementState::Claimed { worker, .. } if worker == key);
            let placement = self.store.placement(run).await?.filter(is_its);
            Ok(ReleaseState { worker, placement })
        };
        let decide = |ReleaseState { worker, placement }: ReleaseState, ctx: &mut DomainContext<'_>| {
            if let Some(placement) = placement {
                return Ok(changes::close(placement, worker, ctx.now)?.into());
            }
            let Some(mut worker) = worker.filter(|worker| worker.value.runs.contains(&run)) else {
                return Ok(Decision::Unchanged(()));
            };
            worker.value.runs.remove(&run);
            worker.value.reported.remove(&run);
            let mut commit = Commit::new();
            commit.worker(&worker)?;
            Ok(Decision::Commit(commit, ()))
        };
        self.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
    }
}
