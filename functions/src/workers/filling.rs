//! What a worker is given when it shows that it lives: launches that wait, and those that a vanished worker never claimed.

use pilothouse_store::{Commit, Loaded, Place, Placement, WorkerKey, WorkerRecord};

use super::dispatch::{Dispatch, DispatchError, TRIES};

/// Launches that are read at once, and the most that one heartbeat looks at.
const PAGE: usize = 50;
const LOOKED_AT: usize = 500;

impl Dispatch {
    /// Gives a worker what it can take of what nobody has claimed, oldest first.
    pub async fn fill(&self, key: &WorkerKey) -> Result<(), DispatchError> {
        let Some(mut worker) = self.store.worker(key).await? else { return Ok(()) };
        let is_known = |run| worker.value.reported.contains_key(run);
        let is_full = worker.value.room() == 0 && worker.value.runs.iter().all(is_known);
        if is_full || !self.takes_more(&worker.value) {
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
                    // Somebody else was faster with the run, or changed the worker.
                    Err(DispatchError::Contended) => {
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
    ) -> Result<(), DispatchError> {
        let holder = match &placement.value.place {
            Place::Given { worker: holder, at } if *holder == worker.value.key => {
                // Told again, in case it was committed and never told.
                let is_late = *at + self.pace.heartbeat <= self.now();
                let waits = is_late && !worker.value.reported.contains_key(&placement.value.request.run_id);
                return if waits { self.tell_launch(holder, &placement.value, *at).await } else { Ok(()) };
            }
            Place::Given { worker: holder, .. } => {
                let holder = self.store.worker(holder).await?;
                if holder.as_ref().is_some_and(|holder| self.takes_more(&holder.value)) {
                    return Ok(());
                }
                holder
            }
            Place::Waiting => None,
            Place::Claimed { .. } | Place::Over { .. } => return Ok(()), // the index lags
        };
        if self.session_of(&placement.value.request).await?.is_none() {
            return self.close(placement, holder).await;
        }
        if !self.fits(&worker.value, &placement.value) {
            return Ok(());
        }
        match self.home_of(&placement.value).await? {
            Some(home) if home.value.key != worker.value.key => Ok(()),
            _ => self.give(placement, worker, holder).await,
        }
    }

    /// A run will never start, or its worker is done with it.
    pub(super) async fn close(
        &self,
        mut placement: Loaded<Placement>,
        holder: Option<Loaded<WorkerRecord>>,
    ) -> Result<(), DispatchError> {
        let run = placement.value.request.run_id;
        let at = self.now();
        let mut commit = Commit::new();
        let worker = match placement.value.place {
            Place::Claimed { worker, .. } => Some(worker),
            Place::Waiting | Place::Given { .. } => None,
            Place::Over { .. } => return Ok(()),
        };
        placement.value.place = Place::Over { worker, at };
        commit.placement(&placement)?;
        if let Some(mut holder) = holder
            && holder.value.runs.remove(&run)
        {
            holder.value.reported.remove(&run);
            commit.worker(&holder)?;
        }
        Ok(self.store.commit(commit).await?)
    }

    /// What a worker was given and does not know: what it never claimed waits for it on its queue; what it has claimed
    /// is lost with its folders, and is told to be over.
    pub(super) async fn reconcile(&self, key: &WorkerKey) -> Result<(), DispatchError> {
        let Some(worker) = self.store.worker(key).await? else { return Ok(()) };
        let unknown = worker.value.runs.iter().filter(|run| !worker.value.reported.contains_key(run));
        for run in unknown {
            let placement = self.store.placement(*run).await?;
            match placement.as_ref().map(|known| (&known.value, &known.value.place)) {
                Some((_, Place::Given { worker, .. })) if worker == key => {}
                Some((known, Place::Claimed { worker, at })) if worker == key => {
                    if *at + self.pace.alive < self.now() {
                        tracing::warn!(%run, worker = %key.id, "a worker does not know a run that it has claimed");
                        self.tell_over(&known.request, "its worker does not know it any more").await?;
                        self.release(key, *run).await?;
                    }
                }
                _ => self.release(key, *run).await?,
            }
        }
        Ok(())
    }

    /// Takes a run that is over off a worker. Another's is left alone.
    pub(super) async fn release(
        &self,
        key: &WorkerKey,
        run: pilothouse_domain::RunId,
    ) -> Result<(), DispatchError> {
        for attempt in 0..TRIES {
            let worker = self.store.worker(key).await?;
            let placement = self.store.placement(run).await?;
            let is_its = |placement: &Loaded<Placement>| matches!(&placement.value.place, Place::Claimed { worker, .. } if worker == key);
            let released = match (placement.filter(is_its), worker) {
                (Some(placement), worker) => self.close(placement, worker).await,
                (None, Some(mut worker)) if worker.value.runs.contains(&run) => {
                    worker.value.runs.remove(&run);
                    worker.value.reported.remove(&run);
                    let mut commit = Commit::new();
                    commit.worker(&worker)?;
                    self.store.commit(commit).await.map_err(Into::into)
                }
                (None, _) => Ok(()),
            };
            match released {
                Err(DispatchError::Contended) => self.pause(attempt).await,
                released => return released,
            }
        }
        Err(DispatchError::Contended)
    }
}
