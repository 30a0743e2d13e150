//! `GET /api/agents/sessions/{id}/plan`: the agent's plan (S0 8.7 `GetSessionPlanQuery`).

use axum::extract::State;

use crate::app::App;
use crate::change::Answer;
use crate::edge::{Owner, Problem, Session};

/// 200 with the plan; 404 when the agent has not entered plan mode.
pub async fn handle(
    State(app): State<App>,
    Owner(owner): Owner,
    Session(id): Session,
) -> Result<Answer, Problem> {
    let session = app.session_of(&owner, id).await?;
    let plan = session.plan().ok_or_else(|| Problem::NotFound("the agent has made no plan".to_owned()))?;
    Answer::ok(session.control_version(), plan)
}
