//! `DELETE /api/workers/{id}`: removes a worker.

use axum::extract::State;
use http::StatusCode;
use pilothouse_app::App;
use pilothouse_app::function::requirements::WORKER_REMOVAL;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::Problem;
use pilothouse_app::http::request::Parameters;
use pilothouse_app::placement::WorkerAssigner;
use pilothouse_app::queues;

use crate::worker_api::request::{WorkerCaller, no_worker};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("workers-remove", Verb::Delete, "/api/workers/{id}", |verb| verb.route(remove_worker))
        .owner()
        .summary("Remove a worker, or declare its machine lost")
        .query(&["lost"])
        .statuses(&[204])
        .requires(WORKER_REMOVAL);

/// Responds with 204. Runs that the worker has not claimed are assigned to other workers. Responds with 409 while the worker
/// has unfinished runs. With `lost=true`, the owner declares the machine lost and these runs end. A worker that is still alive
/// registers again with its next heartbeat and must end these runs first.
async fn remove_worker(
    State(app): State<App>,
    WorkerCaller(key): WorkerCaller,
    parameters: Parameters,
) -> Result<StatusCode, Problem> {
    app.fleet()?;
    let lost = parameters.parsed("lost").map_err(|_| Problem::invalid("lost", "must be true or false"))?;
    if !WorkerAssigner::of(&app).remove(&key, lost.unwrap_or(false)).await? {
        return Err(no_worker());
    }
    app.broker.remove(&queues::worker(&key)).await.map_err(Problem::internal)?;
    Ok(StatusCode::NO_CONTENT)
}
