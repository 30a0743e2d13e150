//! `POST /api/agents/sessions/{id}/compact`: requests a summary of the conversation (S1 5 `Compact`).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_api::input::Violations;
use pilothouse_api::sessions::SessionView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{Problem, Session};
use pilothouse_domain::text::Feedback;
use schemars::JsonSchema;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("sessions-compact", Verb::Post, "/api/agents/sessions/{id}/compact", |verb| {
        verb.route(compact_session)
    })
    .owner()
    .summary("Compact the conversation of an agent")
    .input::<Compact>()
    .output::<SessionView>(&[202]);

/// Options of a compaction.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Compact {
    /// What the summary should emphasise.
    #[deserr(default)]
    pub instructions: Option<Feedback>,
}

/// Responds with 202. The agent compacts its conversation later. A hibernated session is woken first. Instructions that a guardrail of the
/// agent's brief blocks are refused with 409 `guardrail-blocked`.
async fn compact_session(
    State(app): State<App>,
    command: CommandContext,
    Session(id): Session,
    body: Body<Compact>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let instructions = body.input.instructions;
    app.change_session_guarded(
        &command,
        id,
        |it, guardrails, ctx| Ok(it.compact_guarded(instructions.as_ref(), guardrails, ctx)?),
        CommandResponse::session,
    )
    .await
}
