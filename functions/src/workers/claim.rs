//! `POST /api/workers/{id}/claims`: a worker claims a run that it was given, and gets the run's keys (rulings 7, 8).

use axum::Json;
use axum::extract::State;
use pilothouse_domain::RunId;
use pilothouse_store::{Commit, CommitError, Place, WorkerKey};
use pilothouse_wire::launch::LaunchRequest;
use pilothouse_wire::worker::{ClaimAnswer, ClaimRun};

use super::dispatch::{Dispatch, DispatchError, TRIES};
use super::request::{Known, Sent, no_run};
use crate::app::App;
use crate::edge::Problem;

/// 200 with the outcome. Asked again by the worker that has the run, it gives the keys again. 404 for a run that this
/// worker was never to have.
pub async fn handle(
    State(app): State<App>,
    Known(key): Known,
    Sent(claim): Sent<ClaimRun>,
) -> Result<Json<ClaimAnswer>, Problem> {
    let fleet = app.fleet()?;
    let answer = match Dispatch::of(&app).claim(&key, claim.run_id).await? {
        Claim::Granted(request) => {
            // What is stored, not what the worker says: the keys of another retry are none of its business.
            ClaimAnswer::Claimed { access: Box::new(fleet.entrance.admit(&app.secret, &request)) }
        }
        Claim::HeldByOther => ClaimAnswer::HeldByOther {},
        Claim::RunIsOver => ClaimAnswer::RunIsOver {},
        Claim::Unknown => return Err(no_run()),
    };
    Ok(Json(answer))
}

/// What became of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Claim {
    /// The run is the worker's.
    Granted(LaunchRequest),
    /// It was given to another, or waits for one.
    HeldByOther,
    /// It is over.
    RunIsOver,
    /// It is not the worker's business.
    Unknown,
}

impl Dispatch {
    /// Claims a run for a worker that it was given to. The conditional write decides.
    pub(super) async fn claim(&self, key: &WorkerKey, run: RunId) -> Result<Claim, DispatchError> {
        for attempt in 0..TRIES {
            let Some(worker) = self.store.worker(key).await? else { return Ok(Claim::Unknown) };
            let Some(mut placement) = self.store.placement(run).await? else { return Ok(Claim::Unknown) };
            if !worker.value.shared && placement.value.owner != key.owner {
                return Ok(Claim::Unknown);
            }
            let is_claimed = match &placement.value.place {
                Place::Given { worker, .. } if worker == key => false,
                Place::Claimed { worker, .. } if worker == key => true,
                Place::Over { .. } => return Ok(Claim::RunIsOver),
                Place::Waiting | Place::Given { .. } | Place::Claimed { .. } => {
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
                    placement.value.place = Place::Claimed { worker: key.clone(), at: self.now() };
                    let mut commit = Commit::new();
                    commit.placement(&placement)?;
                    commit.home(request.session_id, key)?;
                    self.store.commit(commit).await.map_err(|error: CommitError| error.into())
                }
            };
            match written {
                Ok(()) if is_current => return Ok(Claim::Granted(request)),
                Ok(()) => return Ok(Claim::RunIsOver),
                Err(DispatchError::Contended) => self.pause(attempt).await,
                Err(error) => return Err(error),
            }
        }
        Err(DispatchError::Contended)
    }
}
