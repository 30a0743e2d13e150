//! `POST /api/agents/sessions/{id}/pause`: pauses a Running session (S0 8.4 `RequestPause`).

use axum::extract::State;
use pilothouse_api::sessions::SessionView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{NoBody, Problem, Session};
use pilothouse_domain::AgentSessionId;
use pilothouse_domain::session::AgentSessionStatus;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("sessions-pause", Verb::Post, "/api/agents/sessions/{id}/pause", |verb| {
        verb.route(pause_session)
    })
    .owner()
    .summary("Pause a running session")
    .output::<SessionView>(&[200, 202]);

/// Responds with 202 while the sidecar has not confirmed.
async fn pause_session(
    State(app): State<App>,
    command: CommandContext,
    Session(id): Session,
    _: NoBody,
) -> Result<CommandResponse, Problem> {
    app.change_session(&command.as_stop(), id, |it, ctx| Ok(it.session.request_pause(ctx)?)).await
}

/// Pauses a Running session before the server exits. Returns whether a pause was requested.
pub async fn before_exit(app: &App, id: AgentSessionId) -> Result<bool, Problem> {
    let session = app.store.session(id).await?;
    let Some(session) = session.filter(|session| session.status() == AgentSessionStatus::Running) else {
        return Ok(false);
    };
    let command = CommandContext::for_server(session.owner_id().clone(), "pause-agents-on-exit");
    match app.change_session(&command, id, |it, ctx| Ok(it.session.request_pause(ctx)?)).await {
        Ok(_) => Ok(true),
        // The turn has just ended, or the owner has changed the session meanwhile.
        Err(Problem::Session(_)) => Ok(false),
        Err(problem) => Err(problem),
    }
}
