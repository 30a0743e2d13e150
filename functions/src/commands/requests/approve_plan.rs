//! `POST /api/agents/sessions/{id}/plan/approve`: approves the plan of the agent (S0 8.7 `ApprovePlanCommand`).

use axum::extract::State;
use pilothouse_api::sessions::SessionView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{Problem, Session};
use pilothouse_domain::decision::OwnerDecision;

use super::NamedRequest;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("plan-approve", Verb::Post, "/api/agents/sessions/{id}/plan/approve", |verb| {
        verb.route(approve_plan)
    })
    .owner()
    .summary("Approve the plan of an agent")
    .input::<NamedRequest>()
    .output::<SessionView>(&[200]);

/// Responds with 200 and the session. The agent continues.
async fn approve_plan(
    State(app): State<App>,
    command: CommandContext,
    Session(id): Session,
    body: Body<NamedRequest>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let decision = OwnerDecision::ApprovePlan { request: body.input.request_id };
    app.change_session_unless_braked(&command, id, |it, ctx| Ok(it.resolve(decision.clone(), ctx)?)).await
}
