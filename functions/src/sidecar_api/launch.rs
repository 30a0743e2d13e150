//! `POST /internal/gateway/launch`: returns the launch parameters of a run to a container that has only its token.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use pilothouse_app::App;
use pilothouse_app::function::requirements::LAUNCH;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::Problem;
use pilothouse_app::placement::launch_request;

use super::{Caller, gone};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("gateway-launch", Verb::Post, "/internal/gateway/launch", |verb| {
        verb.route(get_launch)
    })
    .sidecar()
    .summary("Get the launch parameters of a run")
    .requires(LAUNCH);

/// Responds with 200 and the launch parameters, or with 410 when the run is over. The session home is empty: the container
/// chooses it.
async fn get_launch(State(app): State<App>, caller: Caller) -> Result<Response, Problem> {
    let fleet = app.fleet()?;
    let session = app.store.session(caller.session).await?;
    let request = match &session {
        Some(session) => launch_request(&app.store, session).await?,
        None => None,
    };
    let Some(request) = request.filter(|request| request.run_id == caller.run) else {
        return Ok(gone());
    };
    let launch = fleet.run_access_issuer.issue(&app.secret, &request).launch(request, String::new());
    Ok(([(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))], Json(launch)).into_response())
}
