//! The gateway: HTTP access for sidecars to the broker of an embedded server. [`pilothouse_wire::gateway`] defines its
//! messages. A token grants access only to the queues of its run, so that a sidecar cannot read another run's commands.

pub mod authorize;
pub mod blobs;
pub mod credentials;
pub mod delete_commands;
pub mod images;
pub mod launch;
pub mod receive_commands;
pub mod send_draft;
pub mod send_events;

use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{StatusCode, header};
use pilothouse_app::App;
use pilothouse_app::http::{Problem, peer};
use pilothouse_broker::{MAX_BATCH, MAX_MESSAGE_BYTES};
use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_wire::keys::constant_time_eq;

/// The largest request body in bytes, except for blobs: a full batch of the largest messages with JSON escapes.
pub const MAX_BODY_BYTES: usize = 2 * MAX_BATCH * MAX_MESSAGE_BYTES;

/// The run that the token of a request names.
#[derive(Debug, Clone, Copy)]
pub struct Caller {
    pub session: AgentSessionId,
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
        if !constant_time_eq(app.secret.gateway_token(session, run).as_str(), token) {
            return Err(REFUSED);
        }
        peer::authenticated(parts, || peer::Caller::Session(session))?;
        Ok(Self { session, run })
    }
}

/// The response when the broker fails. The sidecar retries.
fn unavailable(error: &pilothouse_broker::QueueError) -> Response {
    tracing::warn!(%error, "a request of the gateway to the broker failed");
    StatusCode::SERVICE_UNAVAILABLE.into_response()
}

/// The response when the run is over. The sidecar exits.
fn gone() -> Response {
    StatusCode::GONE.into_response()
}
