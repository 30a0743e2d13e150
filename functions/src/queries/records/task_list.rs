//! `GET /api/agents/sessions/{id}/task-list`: returns the task list of the agent (S0 8.7 `GetSessionTaskListQuery`).

use axum::extract::State;
use pilothouse_app::App;
use pilothouse_app::command::CommandResponse;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Owner, Problem, Session};
use pilothouse_domain::value::SessionTaskList;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("records-task-list", Verb::Get, "/api/agents/sessions/{id}/task-list", |verb| {
        verb.route(get_task_list)
    })
    .owner()
    .summary("Get the task list of an agent")
    .output::<SessionTaskList>(&[200]);

/// Responds with 200 and the latest snapshot, or with 404 when the agent has made no task list.
async fn get_task_list(
    State(app): State<App>,
    Owner(owner): Owner,
    Session(id): Session,
) -> Result<CommandResponse, Problem> {
    let session = app.session_of(&owner, id).await?;
    let task_list =
        session.task_list().ok_or_else(|| Problem::NotFound("the agent has made no task list".to_owned()))?;
    CommandResponse::ok(session.control_version(), task_list)
}
