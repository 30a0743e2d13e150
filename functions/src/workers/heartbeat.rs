//! `PUT /api/workers/{id}`: a worker registers, and shows that it lives.

use axum::Json;
use axum::extract::State;
use pilothouse_store::{Commit, CommitError, Loaded, WorkerKey, WorkerRecord};
use pilothouse_wire::worker::{Heartbeat, HeartbeatAnswer, OrdersAccess};

use super::dispatch::{Dispatch, DispatchError, TRIES};
use super::request::{Known, Sent};
use crate::api::Violation;
use crate::app::{App, Fleet};
use crate::edge::Problem;
use crate::queues;

/// The most runs that a worker takes at once.
const MAX_CAPACITY: u32 = 500;
/// The most labels, and their longest name and value in characters.
const MAX_LABELS: usize = 50;
const MAX_LABEL_CHARS: usize = 200;
/// The most runs that a worker reports.
const MAX_RUNS: usize = 2 * MAX_CAPACITY as usize;

/// 200 with when to come again, and the way to the worker's queue where it asks for it. What waits for such a worker is
/// given to it.
pub async fn handle(
    State(app): State<App>,
    Known(key): Known,
    Sent(heartbeat): Sent<Heartbeat>,
) -> Result<Json<HeartbeatAnswer>, Problem> {
    let fleet = app.fleet()?;
    check(fleet, &key, &heartbeat)?;
    let dispatch = Dispatch::of(&app);
    dispatch.heard(&key, &heartbeat).await?;
    dispatch.reconcile(&key).await?;
    dispatch.fill(&key).await?;
    let access = match (&fleet.vendor, heartbeat.needs_access) {
        (_, false) => None,
        (None, true) => Some(OrdersAccess::Http {}),
        (Some(vendor), true) => {
            let queue = queues::worker(&key);
            let credentials = vendor.for_queue(queue.as_str()).await.map_err(Problem::internal)?;
            Some(OrdersAccess::Sqs(credentials))
        }
    };
    Ok(Json(HeartbeatAnswer { heartbeat_seconds: dispatch.pace.heartbeat.as_secs_f64(), access }))
}

fn check(fleet: &Fleet, key: &WorkerKey, heartbeat: &Heartbeat) -> Result<(), Problem> {
    let mut violations = Vec::new();
    let mut violated = |field: &str, message: String| {
        violations.push(Violation { field: field.to_owned(), message });
    };
    if !(1..=MAX_CAPACITY).contains(&heartbeat.capacity) {
        violated("capacity", format!("must be 1 to {MAX_CAPACITY}"));
    }
    if heartbeat.shared && !fleet.operators.contains(&key.owner) {
        violated("shared", "is for workers of an operator of this deployment".to_owned());
    }
    if heartbeat.labels.len() > MAX_LABELS {
        violated("labels", format!("must be at most {MAX_LABELS}"));
    }
    for (name, value) in &heartbeat.labels {
        let field = format!("labels.{}", name.chars().take(80).collect::<String>());
        if name == "id" {
            violated(&field, "is the worker's own id and cannot be set".to_owned());
        }
        if name.is_empty() || name.chars().count() > MAX_LABEL_CHARS {
            violated(&field, format!("must have a name of 1 to {MAX_LABEL_CHARS} characters"));
        }
        if value.chars().count() > MAX_LABEL_CHARS {
            violated(&field, format!("must have at most {MAX_LABEL_CHARS} characters"));
        }
    }
    if heartbeat.runs.len() > MAX_RUNS {
        violated("runs", format!("must be at most {MAX_RUNS}"));
    }
    if violations.is_empty() { Ok(()) } else { Err(Problem::Invalid(violations)) }
}

impl Dispatch {
    /// Keeps what a worker says of itself; one that is new gets a queue first.
    async fn heard(&self, key: &WorkerKey, heartbeat: &Heartbeat) -> Result<(), DispatchError> {
        for attempt in 0..TRIES {
            let now = self.now();
            let known = self.store.worker(key).await?;
            if known.is_none() {
                queues::create_worker(self.broker.as_ref(), key, self.pace.alive).await?;
            }
            let mut worker = known.unwrap_or_else(|| {
                Loaded::new(WorkerRecord {
                    key: key.clone(),
                    shared: false,
                    labels: heartbeat.labels.clone(),
                    capacity: heartbeat.capacity,
                    draining: false,
                    runs: std::collections::BTreeSet::new(),
                    reported: std::collections::BTreeMap::new(),
                    seen_at: now,
                    registered_at: now,
                })
            });
            let record = &mut worker.value;
            record.shared = heartbeat.shared;
            record.labels.clone_from(&heartbeat.labels);
            record.capacity = heartbeat.capacity;
            record.draining = heartbeat.draining;
            record.reported = heartbeat.runs.iter().map(|run| (run.run_id, run.state)).collect();
            record.seen_at = now;
            let mut commit = Commit::new();
            commit.worker(&worker)?;
            match self.store.commit(commit).await {
                Ok(()) => return Ok(()),
                Err(CommitError::Conflict) => self.pause(attempt).await,
                Err(error) => return Err(error.into()),
            }
        }
        Err(DispatchError::Contended)
    }
}
