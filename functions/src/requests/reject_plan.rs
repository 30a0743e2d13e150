//! `POST /api/agents/sessions/{id}/plan/reject`: has the agent revise its plan (S0 8.7 `RejectPlanCommand`).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_domain::ToolCallId;
use pilothouse_domain::text::Feedback;
use schemars::JsonSchema;

use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::input::{Body, Violations, parsed};
use crate::edge::{Problem, Session};

/// What to change.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct RejectPlan {
    /// The request, from the session's `pendingRequests`; 409 `request-over` when it is not open.
    #[deserr(try_from(String) = parsed -> pilothouse_domain::InvalidId)]
    pub request_id: ToolCallId,
    /// What the agent is told.
    #[deserr(try_from(String) = Feedback::try_from -> pilothouse_domain::text::InvalidText)]
    pub feedback: Feedback,
}

/// 200: the agent goes on and revises.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Session(id): Session,
    body: Body<RejectPlan>,
) -> Result<Answer, Problem> {
    let call = call.with_body(&body.hash);
    let RejectPlan { request_id, feedback } = body.input;
    app.command(&call, id, |it, cx| Ok(it.reject_plan(&request_id, feedback.clone(), cx)?)).await
}
