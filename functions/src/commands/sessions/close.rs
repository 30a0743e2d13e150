//! `POST /api/agents/sessions/{id}/close`: completes an Idle session that has no output to review (S0 8.4 `Close`).

use axum::extract::State;
use pilothouse_api::sessions::SessionView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{NoBody, Problem, Session};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("sessions-close", Verb::Post, "/api/agents/sessions/{id}/close", |verb| {
        verb.route(close_session)
    })
    .owner()
    .summary("Close an idle session that has no output to review")
    .output::<SessionView>(&[200]);

/// Responds with 200. The session is Completed.
async fn close_session(
    State(app): State<App>,
    command: CommandContext,
    Session(id): Session,
    _: NoBody,
) -> Result<CommandResponse, Problem> {
    app.change_session(&command, id, |it, ctx| Ok(it.session.close(ctx)?)).await
}
