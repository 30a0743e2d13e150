//! `POST /internal/gateway/credentials`: short-lived credentials for the queues and blobs of the run that asks
//! (architecture: Security).

use std::time::Duration;

use axum::Json;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use pilothouse_domain::{AgentSession, Deadlines, RunId, Timestamp};
use serde::Deserialize;

use super::{Caller, gone};
use crate::app::App;
use crate::edge::Problem;

/// What they are for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Purpose {
    /// Only to send what a dead sidecar has left in its spool, which may be after the end of its run.
    leftovers: bool,
}

/// 200 with fresh ones; 410 when the run is over, for leftovers an hour later; 404 where sidecars go through the gateway.
pub async fn handle(
    State(app): State<App>,
    caller: Caller,
    Query(purpose): Query<Purpose>,
) -> Result<Response, Problem> {
    let Some(vendor) = &app.fleet()?.vendor else {
        return Err(Problem::NotFound("sidecars of this server go through its gateway".to_owned()));
    };
    let Some(session) = app.store.session(caller.session).await? else { return Ok(gone()) };
    let is_current = session.run().is_some_and(|run| run.id == caller.run);
    let credentials = if purpose.leftovers {
        if !is_current && !ended_lately(&session, caller.run, app.now(), &app.deadlines) {
            return Ok(gone());
        }
        vendor.for_leftovers(caller.session, caller.run).await
    } else if is_current {
        vendor.for_run(caller.session, caller.run).await
    } else {
        return Ok(gone());
    };
    let credentials = credentials.map_err(Problem::internal)?;
    Ok(([(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))], Json(credentials)).into_response())
}

/// How long after the end of a run its leftovers are taken: an hour, in proportion to the other limits of waiting.
fn leftovers_taken(deadlines: &Deadlines) -> Duration {
    deadlines.silent * 40
}

fn ended_lately(session: &AgentSession, run: RunId, now: Timestamp, deadlines: &Deadlines) -> bool {
    let past = session.past_runs().iter().find(|past| past.id == run);
    past.and_then(|past| past.ended_at).is_some_and(|at| at + leftovers_taken(deadlines) > now)
}
