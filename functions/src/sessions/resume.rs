//! `POST /api/agents/sessions/{id}/resume`: takes up a Paused session (S0 8.4 `RequestResume`).

use axum::extract::State;

use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::{NoBody, Problem, Session};

/// 202: the sidecar has yet to confirm. A hibernated session gets a run first.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Session(id): Session,
    _: NoBody,
) -> Result<Answer, Problem> {
    app.command(&call, id, |it, cx| Ok(it.session.request_resume(cx)?)).await
}
