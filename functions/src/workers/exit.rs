//! `POST /api/workers/{id}/exits`: a worker reports that a run's process is gone. The control plane signs it: the key of
//! the runtime's word never leaves it.

use axum::extract::State;
use http::StatusCode;
use pilothouse_runtime::RunEvents as _;
use pilothouse_store::Place;
use pilothouse_wire::worker::ReportExit;

use super::dispatch::Dispatch;
use super::request::{Known, Sent, no_run};
use crate::app::App;
use crate::edge::Problem;

/// 204, also when it was reported before. 404 for a run that this worker has not claimed.
pub async fn handle(
    State(app): State<App>,
    Known(key): Known,
    Sent(report): Sent<ReportExit>,
) -> Result<StatusCode, Problem> {
    app.fleet()?;
    let dispatch = Dispatch::of(&app);
    let placement = app.store.placement(report.run_id).await?.ok_or_else(no_run)?.value;
    let is_its = match &placement.place {
        Place::Claimed { worker, .. } | Place::Over { worker: Some(worker), .. } => *worker == key,
        Place::Waiting | Place::Given { .. } | Place::Over { worker: None, .. } => false,
    };
    if !is_its || placement.request.session_id != report.session_id {
        return Err(no_run());
    }
    // Told first: a worker whose report is lost in between reports again, and is recognised.
    dispatch.ends.exited(report.session_id, report.run_id, report.exit).await.map_err(Problem::internal)?;
    dispatch.release(&key, report.run_id).await?;
    dispatch.fill(&key).await?;
    Ok(StatusCode::NO_CONTENT)
}
