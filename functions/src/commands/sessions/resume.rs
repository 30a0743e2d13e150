//! `POST /api/agents/sessions/{id}/resume`: resumes a Paused session (S0 8.4 `RequestResume`).

use axum::extract::State;
use pilothouse_api::sessions::SessionView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{NoBody, Problem, Session};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("sessions-resume", Verb::Post, "/api/agents/sessions/{id}/resume", |verb| {
        verb.route(resume_session)
    })
    .owner()
    .summary("Resume a paused session")
    .output::<SessionView>(&[200, 202]);

/// Responds with 202 while the sidecar has not confirmed. A hibernated session gets a new run first.
async fn resume_session(
    State(app): State<App>,
    command: CommandContext,
    Session(id): Session,
    _: NoBody,
) -> Result<CommandResponse, Problem> {
    app.change_session_unless_braked(&command, id, |it, ctx| Ok(it.session.request_resume(ctx)?)).await
}
