//! `POST /api/agents/sessions/{id}/pause`: pauses a Running session (S0 8.4 `RequestPause`).

use axum::extract::State;
use pilothouse_api::sessions::SessionView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{NoBody, Problem, Session};
use pilothouse_domain::AgentSessionId;
use pilothouse_domain::session::{AgentSessionStatus, SessionError};

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

/// What a session does before its server exits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BeforeExit {
    /// Its agent does not work.
    AtRest,
    /// It is being paused, or its status changes soon: repeat the call.
    Changing,
    /// Its agent works and cannot pause.
    CannotPause,
}

/// Pauses a session before the server exits, if it is Running.
///
/// # Errors
/// The store failed; a repeated call may succeed.
pub async fn before_exit(app: &App, id: AgentSessionId) -> Result<BeforeExit, Problem> {
    use AgentSessionStatus as S;
    let Some(session) = app.store.session(id).await? else { return Ok(BeforeExit::AtRest) };
    match session.status() {
        S::Running => {}
        // A session with a process is Queued until its sidecar is ready.
        S::Queued | S::Interrupting | S::Pausing | S::Resuming | S::Cancelling => {
            return Ok(BeforeExit::Changing);
        }
        S::Interrupted
        | S::Paused
        | S::Cancelled
        | S::WaitingForInput
        | S::WaitingForApproval
        | S::Idle
        | S::ContextExhausted
        | S::Completed
        | S::Failed => return Ok(BeforeExit::AtRest),
    }
    let command = CommandContext::for_server(session.owner_id().clone(), "pause-agents-on-exit");
    match app.change_session(&command, id, |it, ctx| Ok(it.session.request_pause(ctx)?)).await {
        Err(Problem::Session(SessionError::NotCapable { .. })) => Ok(BeforeExit::CannotPause),
        // The turn has just ended, or the owner has changed the session meanwhile.
        Ok(_) | Err(Problem::Session(_)) => Ok(BeforeExit::Changing),
        Err(problem) => Err(problem),
    }
}
