//! `GET /api/agents/sessions/{id}/plan`: returns the plan of the agent (S0 8.7 `GetSessionPlanQuery`).

use axum::extract::State;
use pilothouse_app::App;
use pilothouse_app::command::CommandResponse;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Owner, Problem, Session};
use pilothouse_domain::value::SessionPlan;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("records-plan", Verb::Get, "/api/agents/sessions/{id}/plan", |verb| {
        verb.route(get_plan)
    })
    .owner()
    .summary("Get the plan of an agent")
    .output::<SessionPlan>(&[200]);

/// Responds with 200 and the plan, or with 404 when the agent has made none.
async fn get_plan(
    State(app): State<App>,
    Owner(owner): Owner,
    Session(id): Session,
) -> Result<CommandResponse, Problem> {
    let session = app.session_of(&owner, id).await?;
    let plan = session.plan().ok_or_else(|| Problem::NotFound("the agent has made no plan".to_owned()))?;
    CommandResponse::ok(session.control_version(), plan)
}
