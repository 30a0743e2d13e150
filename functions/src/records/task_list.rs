//! `GET /api/agents/sessions/{id}/task-list`: the agent's own task list (S0 8.7 `GetSessionTaskListQuery`).

use axum::extract::State;

use crate::app::App;
use crate::change::Answer;
use crate::edge::{Owner, Problem, Session};

/// 200 with the latest snapshot; 404 when the agent has made none.
pub async fn handle(
    State(app): State<App>,
    Owner(owner): Owner,
    Session(id): Session,
) -> Result<Answer, Problem> {
    let session = app.session_of(&owner, id).await?;
    let task_list =
        session.task_list().ok_or_else(|| Problem::NotFound("the agent has made no task list".to_owned()))?;
    Answer::ok(session.control_version(), task_list)
}
