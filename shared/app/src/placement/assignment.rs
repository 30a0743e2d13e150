//! Assigns pending runs to a worker that sends a heartbeat: queued launches, and those that a vanished worker never claimed.

use pilothouse_domain::placement::Reassignment;
use pilothouse_store::{Commit, Loaded, Placement, PlacementState, WorkerKey, WorkerRecord};

use crate::placement::facts::{current_assignment, run_needs, session_folders, worker_offer};
use crate::placement::{AssignmentError, WorkerAssigner};
use crate::unit_of_work::RetryPolicy;

/// The number of launches per read, and the most that one heartbeat examines.
const PAGE: usize = 50;
const LOOKED_AT: usize = 500;

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
                match self.offer(&mut worker, placement).await {
                    Ok(()) => {}
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
        worker: &mut Loaded<WorkerRecord>,
        placement: Loaded<Placement>,
    ) -> Result<(), AssignmentError> {
        let holder = match &placement.value.place {
            PlacementState::Given { worker: holder, .. } if *holder != worker.value.key => {
                self.store.worker(holder).await?
            }
            _ => None,
        };
        let current = current_assignment(&placement.value, &worker.value, holder.as_ref());
        match self.rules().reassignment(&current) {
            Reassignment::Leave => return Ok(()),
            Reassignment::ResendOrder { at } => {
                return self.send_launch(&worker.value.key, &placement.value, at).await;
            }
            Reassignment::Possible => {}
        }
        if self.session_of(&placement.value.request).await?.is_none() {
            return self.close(placement, holder).await;
        }
        if !self.rules().fits(&worker_offer(&worker.value), &run_needs(&placement.value)) {
            return Ok(());
        }
        let home = self.home_of(&placement.value).await?;
        if !session_folders(home.as_ref()).permit(&worker_offer(&worker.value)) {
            return Ok(());
        }
        self.give(placement, worker, holder).await
    }

    /// Closes the placement of a run that will never start or has ended.
    pub(super) async fn close(
        &self,
        mut placement: Loaded<Placement>,
        holder: Option<Loaded<WorkerRecord>>,
    ) -> Result<(), AssignmentError> {
        let run = placement.value.request.run_id;
        let at = self.now();
        let mut commit = Commit::new();
        let worker = match placement.value.place {
            PlacementState::Claimed { worker, .. } => Some(worker),
            PlacementState::Waiting | PlacementState::Given { .. } => None,
            PlacementState::Over { .. } => return Ok(()),
        };
        placement.value.place = PlacementState::Over { worker, at };
        commit.placement(&placement)?;
        if let Some(mut holder) = holder
            && holder.value.runs.remove(&run)
        {
            holder.value.reported.remove(&run);
            commit.worker(&holder)?;
        }
        Ok(self.store.commit(commit).await?)
    }

    /// Reconciles the assigned runs with those that the worker reported. An order for an unclaimed run is still on the worker's
    /// queue. A claimed run that the worker does not know is lost with its folders, so its end is reported.
    pub async fn reconcile(&self, key: &WorkerKey) -> Result<(), AssignmentError> {
        let Some(worker) = self.store.worker(key).await? else { return Ok(()) };
        let unknown = worker.value.runs.iter().filter(|run| !worker.value.reported.contains_key(run));
        for run in unknown {
            let placement = self.store.placement(*run).await?;
            match placement.as_ref().map(|known| (&known.value, &known.value.place)) {
                Some((_, PlacementState::Given { worker, .. })) if worker == key => {}
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
    pub async fn release(
        &self,
        key: &WorkerKey,
        run: pilothouse_domain::RunId,
    ) -> Result<(), AssignmentError> {
        let attempt = async || {
            let worker = self.store.worker(key).await?;
            let placement = self.store.placement(run).await?;
            let is_its = |placement: &Loaded<Placement>| matches!(&placement.value.place, PlacementState::Claimed { worker, .. } if worker == key);
            match (placement.filter(is_its), worker) {
                (Some(placement), worker) => self.close(placement, worker).await,
                (None, Some(mut worker)) if worker.value.runs.contains(&run) => {
                    worker.value.runs.remove(&run);
                    worker.value.reported.remove(&run);
                    let mut commit = Commit::new();
                    commit.worker(&worker)?;
                    Ok(self.store.commit(commit).await?)
                }
                (None, _) => Ok(()),
            }
        };
        RetryPolicy::EVENT.retry(attempt).await
    }
}
