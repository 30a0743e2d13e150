//! `POST /api/agents/sessions/{id}/approve`: approves the output of an Idle session (S0 8.4 `ApproveOutput`).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_api::input::Violations;
use pilothouse_api::sessions::SessionView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{Problem, Session};
use pilothouse_domain::OutputId;
use pilothouse_domain::decision::OwnerDecision;
use schemars::JsonSchema;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("sessions-approve", Verb::Post, "/api/agents/sessions/{id}/approve", |verb| {
        verb.route(approve_session)
    })
    .owner()
    .summary("Approve the output of an idle session")
    .input::<Approve>()
    .output::<SessionView>(&[200]);

/// The output to approve.
#[derive(Debug, Clone, Copy, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Approve {
    /// The id of the reviewed output. The response is 409 `output-changed` when there is a newer one (decision 18).
    pub output_id: OutputId,
}

/// Responds with 200. The session is Completed.
async fn approve_session(
    State(app): State<App>,
    command: CommandContext,
    Session(id): Session,
    body: Body<Approve>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let decision = OwnerDecision::ApproveOutput { output: body.input.output_id };
    app.change_session(&command, id, |it, ctx| Ok(it.resolve(decision.clone(), ctx)?)).await
}
