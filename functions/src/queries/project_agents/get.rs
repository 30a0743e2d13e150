//! `GET /api/agents/{id}`: returns an agent of a project (S2, "Frontend REST API").

use axum::extract::State;
use pilothouse_api::projects::AgentView;
use pilothouse_app::App;
use pilothouse_app::command::CommandResponse;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, Owner, Problem};
use pilothouse_domain::ProjectAgentId;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("agents-get", Verb::Get, "/api/agents/{id}", |verb| verb.route(get_agent))
        .owner()
        .summary("Get an agent of a project")
        .output::<AgentView>(&[200]);

/// Responds with 200 and the agent.
async fn get_agent(
    State(app): State<App>,
    Owner(owner): Owner,
    Id(id): Id<ProjectAgentId>,
) -> Result<CommandResponse, Problem> {
    let agent = app.agent_view(&owner, id).await?;
    CommandResponse::ok(agent.revision, &agent)
}
