//! `POST /api/agents/sessions/{id}/close`: ends an Idle session without output to review (S0 8.4 `Close`).

use axum::extract::State;

use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::{NoBody, Problem, Session};

/// 200: Completed.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Session(id): Session,
    _: NoBody,
) -> Result<Answer, Problem> {
    app.command(&call, id, |it, cx| Ok(it.session.close(cx)?)).await
}
