//! `POST /api/workers/{id}/exits`: reports that the process of a run has exited. The control plane signs the resulting
//! event, because the signing key of the runtime never leaves it.

use axum::extract::State;
use http::StatusCode;
use pilothouse_app::App;
use pilothouse_app::function::requirements::EXIT;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::Problem;
use pilothouse_app::placement::WorkerAssigner;
use pilothouse_store::PlacementState;
use pilothouse_wire::worker::ReportExit;

use super::request::{WireJson, WorkerCaller, no_run};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("workers-exit", Verb::Post, "/api/workers/{id}/exits", |verb| verb.route(report_exit))
        .owner()
        .summary("Report the end of a run's process")
        .input::<ReportExit>()
        .statuses(&[204])
        .requires(EXIT);

/// Responds with 204, also when the exit was reported before. Responds with 404 for a run that this worker has not claimed.
async fn report_exit(
    State(app): State<App>,
    WorkerCaller(key): WorkerCaller,
    WireJson(report): WireJson<ReportExit>,
) -> Result<StatusCode, Problem> {
    app.fleet()?;
    let assigner = WorkerAssigner::of(&app);
    let placement = app.store.placement(report.run_id).await?.ok_or_else(no_run)?.value;
    let is_its = match &placement.place {
        PlacementState::Claimed { worker, .. } | PlacementState::Ended { worker: Some(worker), .. } => {
            *worker == key
        }
        PlacementState::Waiting
        | PlacementState::Assigned { .. }
        | PlacementState::Ended { worker: None, .. } => false,
    };
    if !is_its || placement.request.session_id != report.session_id {
        return Err(no_run());
    }
    // The event is sent before the placement is released. After a failure in between, the worker can repeat its report.
    assigner.report_exit(report.session_id, report.run_id, report.exit).await?;
    assigner.release(&key, report.run_id).await?;
    assigner.assign_pending(&key).await?;
    Ok(StatusCode::NO_CONTENT)
}
