//! `GET /api/agents/{id}/checkpoints`: lists where an agent can continue from (S2, "Session management and checkpointing"; decision 90).

use axum::Json;
use axum::extract::State;
use pilothouse_api::checkpoints::CheckpointList;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, Owner, Problem};
use pilothouse_domain::{ProjectAgent, ProjectAgentId};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("agents-checkpoints", Verb::Get, "/api/agents/{id}/checkpoints", |verb| {
        verb.route(list_checkpoints)
    })
    .owner()
    .summary("List the checkpoints of an agent of a project")
    .output::<CheckpointList>(&[200]);

/// Responds with 200 and the last three checkpoints of the current session, newest first. They are made when the agent waits for a
/// decision, confirms a pause, stops within the grace period of a kill, or crashes.
async fn list_checkpoints(
    State(app): State<App>,
    Owner(owner): Owner,
    Id(id): Id<ProjectAgentId>,
) -> Result<Json<CheckpointList>, Problem> {
    let agent = app.store.aggregate::<ProjectAgent>(&owner, id).await?.ok_or_else(Problem::no_agent)?.value;
    let session = app.session_of(&owner, agent.current_session_id()).await?;
    Ok(Json(CheckpointList::of(&agent, &session)))
}
