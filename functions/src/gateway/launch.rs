//! `POST /internal/gateway/launch`: what a run is launched with, for a container that knows nothing but its token.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};

use super::{Caller, gone};
use crate::app::App;
use crate::edge::Problem;
use crate::reactions::run_lifecycle::request_of;

/// 200 with the launch, whose session home is the container's to choose; 410 when the run is over.
pub async fn handle(State(app): State<App>, caller: Caller) -> Result<Response, Problem> {
    let fleet = app.fleet()?;
    let session = app.store.session(caller.session).await?;
    let Some(request) = session.as_ref().and_then(request_of).filter(|r| r.run_id == caller.run) else {
        return Ok(gone());
    };
    let launch = fleet.entrance.admit(&app.secret, &request).launch(request, String::new());
    Ok(([(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))], Json(launch)).into_response())
}
