//! `POST /api/agents/sessions/{id}/reject`: rejects the output of an Idle session (S0 8.4 `RejectOutput`).

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
use pilothouse_domain::text::Feedback;
use schemars::JsonSchema;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("sessions-reject", Verb::Post, "/api/agents/sessions/{id}/reject", |verb| {
        verb.route(reject_session)
    })
    .owner()
    .summary("Reject the output of an idle session")
    .input::<Reject>()
    .output::<SessionView>(&[200]);

/// The output to reject, and the reason.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reject {
    /// The id of the reviewed output. The response is 409 `output-changed` when there is a newer one (decision 18).
    pub output_id: OutputId,
    /// Why the output is rejected.
    #[deserr(default)]
    pub reason: Option<Feedback>,
}

/// Responds with 200. The session is Failed with `VerificationFailed` and can be retried.
async fn reject_session(
    State(app): State<App>,
    command: CommandContext,
    Session(id): Session,
    body: Body<Reject>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let Reject { output_id, reason } = body.input;
    let decision = OwnerDecision::RejectOutput { output: output_id, reason };
    app.change_session(&command, id, |it, ctx| Ok(it.resolve(decision.clone(), ctx)?)).await
}
