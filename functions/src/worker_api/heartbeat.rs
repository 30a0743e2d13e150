//! `PUT /api/workers/{id}`: registers a worker and records its heartbeat.

use axum::Json;
use axum::extract::State;
use pilothouse_api::Violation;
use pilothouse_app::function::requirements::WORKER;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::Problem;
use pilothouse_app::placement::WorkerAssigner;
use pilothouse_app::queues;
use pilothouse_app::{App, Fleet};
use pilothouse_store::WorkerKey;
use pilothouse_wire::worker::{Heartbeat, HeartbeatResponse, OrdersAccess};

use super::request::{WireJson, WorkerCaller};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("workers-heartbeat", Verb::Put, "/api/workers/{id}", |verb| {
        verb.route(record_heartbeat)
    })
    .owner()
    .summary("Register a worker or renew its registration")
    .input::<Heartbeat>()
    .output::<HeartbeatResponse>(&[200])
    .requires(WORKER);

/// The largest number of concurrent runs of a worker.
const MAX_CAPACITY: u32 = 500;
const MAX_LABELS: usize = 50;
/// The largest length of a label's name and value, in characters.
const MAX_LABEL_CHARS: usize = 200;
/// The largest number of runs in a heartbeat.
const MAX_RUNS: usize = 2 * MAX_CAPACITY as usize;

/// Responds with 200, the heartbeat interval and, on request, the access to the worker's queue. Assigns pending runs that the
/// worker matches.
async fn record_heartbeat(
    State(app): State<App>,
    WorkerCaller(key): WorkerCaller,
    WireJson(heartbeat): WireJson<Heartbeat>,
) -> Result<Json<HeartbeatResponse>, Problem> {
    let fleet = app.fleet()?;
    check(fleet, &key, &heartbeat)?;
    let assigner = WorkerAssigner::of(&app);
    assigner.record_heartbeat(&key, &heartbeat).await?;
    assigner.reconcile(&key).await?;
    // The worker receives no runs until it has ended those that were declared lost.
    let lost_runs = assigner.lost_runs(&key, &heartbeat).await?;
    if lost_runs.is_empty() {
        assigner.assign_pending(&key).await?;
    }
    let access = match (&fleet.vendor, heartbeat.needs_access) {
        (_, false) => None,
        (None, true) => Some(OrdersAccess::Http {}),
        (Some(vendor), true) => {
            let queue = queues::worker(&key);
            let credentials = vendor.for_queue(queue.as_str()).await.map_err(Problem::internal)?;
            Some(OrdersAccess::Sqs(credentials))
        }
    };
    let heartbeat_seconds = assigner.heartbeat_interval().as_secs_f64();
    Ok(Json(HeartbeatResponse { heartbeat_seconds, access, lost_runs }))
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
        violated("shared", "can only be set by an operator of this deployment".to_owned());
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
