//! `POST /internal/gateway/credentials`: short-lived credentials for the queues and blobs of the run that asks
//! (architecture: Security).

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};

use super::{Caller, gone};
use crate::app::App;
use crate::edge::Problem;

/// 200 with fresh ones; 410 when the run is over; 404 where sidecars go through the gateway.
pub async fn handle(State(app): State<App>, caller: Caller) -> Result<Response, Problem> {
    let Some(vendor) = &app.fleet()?.vendor else {
        return Err(Problem::NotFound("sidecars of this server go through its gateway".to_owned()));
    };
    let session = app.store.session(caller.session).await?;
    if session.and_then(|session| session.run().map(|run| run.id)) != Some(caller.run) {
        return Ok(gone());
    }
    let credentials = vendor.for_run(caller.session, caller.run).await.map_err(Problem::internal)?;
    Ok(([(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))], Json(credentials)).into_response())
}
