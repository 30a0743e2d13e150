//! `POST /api/agents/sessions/{id}/plan/approve`: lets the agent carry out its plan (S0 8.7 `ApprovePlanCommand`).

use axum::extract::State;

use super::NamedRequest;
use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::input::Body;
use crate::edge::{Problem, Session};

/// 200: the agent goes on.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Session(id): Session,
    body: Body<NamedRequest>,
) -> Result<Answer, Problem> {
    let call = call.with_body(&body.hash);
    app.command(&call, id, |it, cx| Ok(it.approve_plan(&body.input.request_id, cx)?)).await
}
