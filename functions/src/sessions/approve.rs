//! `POST /api/agents/sessions/{id}/approve`: accepts the output of an Idle session (S0 8.4 `ApproveOutput`).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_domain::OutputId;
use schemars::JsonSchema;

use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::input::{Body, Violations, parsed};
use crate::edge::{Problem, Session};

/// Which output.
#[derive(Debug, Clone, Copy, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Approve {
    /// The output that was looked at; 409 `output-changed` when there is a newer one (ruling 18).
    #[deserr(try_from(String) = parsed -> pilothouse_domain::InvalidId)]
    pub output_id: OutputId,
}

/// 200: Completed.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Session(id): Session,
    body: Body<Approve>,
) -> Result<Answer, Problem> {
    let call = call.with_body(&body.hash);
    app.command(&call, id, |it, cx| Ok(it.session.approve_output(body.input.output_id, cx)?)).await
}
