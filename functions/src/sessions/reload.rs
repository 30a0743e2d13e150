//! `POST /api/agents/sessions/{id}/reload`: the sidecar takes the configuration as it is composed now (S0 8.4
//! `RequestReload`).

use axum::extract::State;

use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::{NoBody, Problem, Session};

/// 202: the sidecar has yet to confirm; 200 where there is none (ruling 25).
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Session(id): Session,
    _: NoBody,
) -> Result<Answer, Problem> {
    app.command(&call, id, |it, cx| Ok(it.session.request_reload(cx)?)).await
}
