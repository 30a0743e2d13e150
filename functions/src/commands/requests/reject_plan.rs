//! `POST /api/agents/sessions/{id}/plan/reject`: rejects the plan of the agent (S0 8.7 `RejectPlanCommand`).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_api::input::Violations;
use pilothouse_api::sessions::SessionView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{Problem, Session};
use pilothouse_domain::ToolCallId;
use pilothouse_domain::decision::OwnerDecision;
use pilothouse_domain::text::Feedback;
use schemars::JsonSchema;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("plan-reject", Verb::Post, "/api/agents/sessions/{id}/plan/reject", |verb| {
        verb.route(reject_plan)
    })
    .owner()
    .summary("Reject the plan of an agent")
    .input::<RejectPlan>()
    .output::<SessionView>(&[200]);

/// The rejection of a plan.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct RejectPlan {
    /// The id of the request in the session's `pendingRequests`. The response is 409 `request-over` when it is not open.
    pub request_id: ToolCallId,
    /// What the agent should change. The agent receives this text.
    pub feedback: Feedback,
}

/// Responds with 200 and the session. The agent revises its plan. Feedback that a guardrail of the agent's brief blocks is refused with
/// 409 `guardrail-blocked`, and the plan waits.
async fn reject_plan(
    State(app): State<App>,
    command: CommandContext,
    Session(id): Session,
    body: Body<RejectPlan>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let RejectPlan { request_id, feedback } = body.input;
    let decision = OwnerDecision::RejectPlan { request: request_id, feedback };
    app.decide_request(&command, id, &decision).await
}
