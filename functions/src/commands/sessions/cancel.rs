//! `POST /api/agents/sessions/{id}/cancel`: cancels a session (S0 8.4 `RequestCancel`, decision 16).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_api::input::Violations;
use pilothouse_api::sessions::SessionView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{Problem, Session};
use schemars::JsonSchema;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("sessions-cancel", Verb::Post, "/api/agents/sessions/{id}/cancel", |verb| {
        verb.route(cancel_session)
    })
    .owner()
    .summary("Cancel a session")
    .input::<Cancel>()
    .output::<SessionView>(&[200, 202]);

/// Options of a cancellation.
#[derive(Debug, Clone, Copy, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cancel {
    /// Whether the runtime ends the agent's process at once, without waiting for the agent to stop.
    #[deserr(default)]
    pub force: bool,
}

/// Responds with 202 while the sidecar has not confirmed or an earlier request is unresolved. Responds with 200 when the
/// session is Cancelled.
async fn cancel_session(
    State(app): State<App>,
    command: CommandContext,
    Session(id): Session,
    body: Body<Cancel>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash).as_stop();
    app.change_session(&command, id, |it, ctx| Ok(it.session.request_cancel(body.input.force, ctx)?)).await
}
