//! `POST /internal/gateway/credentials`: issues short-lived credentials for the queues and blobs of the calling run
//! (decision 46).

use std::time::Duration;

use axum::Json;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use pilothouse_app::App;
use pilothouse_app::function::requirements::CREDENTIALS;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::Problem;
use pilothouse_domain::{AgentSession, Deadlines, RunId, Timestamp};
use serde::Deserialize;

use super::{Caller, gone};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("gateway-credentials", Verb::Post, "/internal/gateway/credentials", |verb| {
        verb.route(issue_credentials)
    })
    .sidecar()
    .summary("Issue credentials for the queues and blobs of a run")
    .query(&["leftovers"])
    .requires(CREDENTIALS);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Purpose {
    /// Limits the credentials to sending the rest of a dead sidecar's spool. They are also issued shortly after the run's end.
    leftovers: bool,
}

/// Responds with 200 and new credentials, or with 410 when the run is over (for leftovers: an hour after its end). Responds
/// with 404 where sidecars use the gateway.
async fn issue_credentials(
    State(app): State<App>,
    caller: Caller,
    Query(purpose): Query<Purpose>,
) -> Result<Response, Problem> {
    let Some(vendor) = &app.fleet()?.vendor else {
        return Err(Problem::NotFound("sidecars of this server use its gateway".to_owned()));
    };
    let Some(session) = app.store.session(caller.session).await? else { return Ok(gone()) };
    let is_current = session.run().is_some_and(|run| run.id == caller.run);
    let credentials = if purpose.leftovers {
        if !is_current && !ended_lately(&session, caller.run, app.now(), &app.deadlines) {
            return Ok(gone());
        }
        vendor.for_drain(caller.session, caller.run).await
    } else if is_current {
        vendor.for_run(caller.session, caller.run).await
    } else {
        return Ok(gone());
    };
    let credentials = credentials.map_err(Problem::internal)?;
    Ok(([(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))], Json(credentials)).into_response())
}

/// How long after the end of a run its leftovers are accepted: an hour by default. The time scales with the other deadlines.
fn leftovers_taken(deadlines: &Deadlines) -> Duration {
    deadlines.silence_timeout * 40
}

fn ended_lately(session: &AgentSession, run: RunId, now: Timestamp, deadlines: &Deadlines) -> bool {
    let past = session.past_runs().iter().find(|past| past.id == run);
    past.and_then(|past| past.ended_at).is_some_and(|at| at + leftovers_taken(deadlines) > now)
}
