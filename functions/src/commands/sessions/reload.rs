//! `POST /api/agents/sessions/{id}/reload`: reloads the configuration of the sidecar (S0 8.4 `RequestReload`).

use axum::extract::State;
use pilothouse_api::sessions::SessionView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{NoBody, Problem, Session};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("sessions-reload", Verb::Post, "/api/agents/sessions/{id}/reload", |verb| {
        verb.route(reload_session)
    })
    .owner()
    .summary("Reload the configuration of a session")
    .output::<SessionView>(&[200, 202]);

/// Responds with 202 while the sidecar has not confirmed, or with 200 when the session has no sidecar (decision 25).
async fn reload_session(
    State(app): State<App>,
    command: CommandContext,
    Session(id): Session,
    _: NoBody,
) -> Result<CommandResponse, Problem> {
    app.change_session(&command, id, |it, ctx| Ok(it.session.request_reload(ctx)?)).await
}
