//! `DELETE /api/workers/{id}`: a worker is no more.

use axum::extract::State;
use http::StatusCode;
use pilothouse_store::{Commit, CommitError, Place, WorkerKey};

use super::dispatch::{Dispatch, DispatchError, TRIES};
use super::request::{Known, no_worker};
use crate::app::App;
use crate::edge::Problem;
use crate::queues;

/// Answers 204. What it never claimed goes to others; what it has claimed ends when it falls silent. A worker that still lives
/// registers again with its next heartbeat.
pub async fn handle(State(app): State<App>, Known(key): Known) -> Result<StatusCode, Problem> {
    app.fleet()?;
    if !Dispatch::of(&app).remove(&key).await? {
        return Err(no_worker());
    }
    app.broker.remove(&queues::worker(&key)).await.map_err(Problem::internal)?;
    Ok(StatusCode::NO_CONTENT)
}

impl Dispatch {
    /// Whether there was such a worker.
    async fn remove(&self, key: &WorkerKey) -> Result<bool, DispatchError> {
        for attempt in 0..TRIES {
            let Some(worker) = self.store.worker(key).await? else { return Ok(attempt > 0) };
            let mut commit = Commit::new();
            commit.worker_removed(&worker);
            match self.store.commit(commit).await {
                Ok(()) => {
                    for run in worker.value.runs {
                        self.take_back(key, run).await?;
                    }
                    return Ok(true);
                }
                Err(CommitError::Conflict) => self.pause(attempt).await,
                Err(error) => return Err(error.into()),
            }
        }
        Err(DispatchError::Contended)
    }

    /// A run that the worker was given and has not claimed waits for another. Should this not come to its end, the next
    /// heartbeat of another finds that its worker is gone.
    async fn take_back(&self, key: &WorkerKey, run: pilothouse_domain::RunId) -> Result<(), DispatchError> {
        let Some(mut placement) = self.store.placement(run).await? else { return Ok(()) };
        if !matches!(&placement.value.place, Place::Given { worker, .. } if worker == key) {
            return Ok(());
        }
        placement.value.place = Place::Waiting;
        let mut commit = Commit::new();
        commit.placement(&placement)?;
        match self.store.commit(commit).await {
            Ok(()) => self.launch(placement.value.request).await,
            Err(CommitError::Conflict) => Ok(()), // claimed, or given to another
            Err(error) => Err(error.into()),
        }
    }
}
