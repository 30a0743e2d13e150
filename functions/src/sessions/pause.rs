//! `POST /api/agents/sessions/{id}/pause`: suspends a Running session (S0 8.4 `RequestPause`).

use axum::extract::State;

use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::{NoBody, Problem, Session};

/// 202: the sidecar has yet to confirm.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Session(id): Session,
    _: NoBody,
) -> Result<Answer, Problem> {
    app.command(&call.as_stop(), id, |it, cx| Ok(it.session.request_pause(cx)?)).await
}
