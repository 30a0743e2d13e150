//! `POST /api/agents/sessions/{id}/reject`: refuses the output of an Idle session (S0 8.4 `RejectOutput`).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_domain::OutputId;
use pilothouse_domain::text::Feedback;
use schemars::JsonSchema;

use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::input::{Body, Violations, maybe, parsed};
use crate::edge::{Problem, Session};

/// Which output, and why.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reject {
    /// The output that was looked at; 409 `output-changed` when there is a newer one (ruling 18).
    #[deserr(try_from(String) = parsed -> pilothouse_domain::InvalidId)]
    pub output_id: OutputId,
    /// Why.
    #[deserr(default, try_from(Option<String>) = maybe -> pilothouse_domain::text::InvalidText)]
    pub reason: Option<Feedback>,
}

/// 200: Failed, `VerificationFailed`; it can be retried.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Session(id): Session,
    body: Body<Reject>,
) -> Result<Answer, Problem> {
    let call = call.with_body(&body.hash);
    let Reject { output_id, reason } = body.input;
    app.command(&call, id, |it, cx| Ok(it.session.reject_output(output_id, reason.clone(), cx)?)).await
}
