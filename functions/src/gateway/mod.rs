//! The gateway: how sidecars reach the broker of an embedded server ([`pilothouse_wire::gateway`] says what goes over
//! it). A token opens the queues of its run alone, so that no sidecar reads another's commands.

pub mod blobs;
pub mod credentials;
pub mod delete_commands;
pub mod launch;
pub mod receive_commands;
pub mod send_events;

use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{StatusCode, header};
use pilothouse_broker::{MAX_BATCH, MAX_MESSAGE_BYTES};
use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_wire::keys::same_secret;

use crate::app::App;
use crate::edge::Problem;

/// The largest body in bytes, blobs apart: a full batch of the largest messages, escaped.
pub const MAX_BODY_BYTES: usize = 2 * MAX_BATCH * MAX_MESSAGE_BYTES;

/// The run that is calling.
#[derive(Debug, Clone, Copy)]
pub struct Caller {
    /// Its session.
    pub session: AgentSessionId,
    /// The run.
    pub run: RunId,
}

impl FromRequestParts<App> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        const REFUSED: Problem = Problem::Unauthenticated("the gateway token is not valid");
        let token = parts
            .headers
            .get(header::AUTHORIZATION)
            .and_then(|v| v.to_str().ok())
            .and_then(|v| v.strip_prefix("Bearer "));
        let token = token.ok_or(REFUSED)?;
        let mut named = token.split('.');
        let session = named.next().and_then(|id| id.parse().ok()).ok_or(REFUSED)?;
        let run = named.next().and_then(|id| id.parse().ok()).ok_or(REFUSED)?;
        if same_secret(app.secret.gateway_token(session, run).as_str(), token) {
            Ok(Self { session, run })
        } else {
            Err(REFUSED)
        }
    }
}

/// What the gateway answers when the broker fails: try again.
fn unavailable(error: &pilothouse_broker::QueueError) -> Response {
    tracing::warn!(%error, "the broker failed");
    StatusCode::SERVICE_UNAVAILABLE.into_response()
}

/// What the gateway answers when the run is over: end.
fn gone() -> Response {
    StatusCode::GONE.into_response()
}
