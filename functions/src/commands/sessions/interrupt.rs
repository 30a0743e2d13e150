//! `POST /api/agents/sessions/{id}/interrupt`: interrupts the turn of a Running session (S0 8.4 `RequestInterrupt`).

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
    HttpFunction::new("sessions-interrupt", Verb::Post, "/api/agents/sessions/{id}/interrupt", |verb| {
        verb.route(interrupt_session)
    })
    .owner()
    .summary("Interrupt the turn of a running session")
    .input::<Interrupt>()
    .output::<SessionView>(&[200, 202]);

/// Options of an interruption.
#[derive(Debug, Clone, Copy, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Interrupt {
    /// Whether pending messages are cancelled. Default: they are held until the owner acts (decision 29).
    #[deserr(default)]
    pub clear_queue: bool,
}

/// Responds with 202 while the sidecar has not confirmed.
async fn interrupt_session(
    State(app): State<App>,
    command: CommandContext,
    Session(id): Session,
    body: Body<Interrupt>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash).as_stop();
    app.change_session(&command, id, |it, ctx| {
        let mut events = it.session.request_interrupt(ctx)?;
        if body.input.clear_queue {
            events.extend(it.clear_queue());
        }
        Ok(events)
    })
    .await
}
