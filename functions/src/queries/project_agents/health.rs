//! `GET /api/agents/{id}/health`: returns the health of an agent (S2).

use axum::Json;
use axum::extract::State;
use pilothouse_api::portfolio::AgentHealthView;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, Owner, Problem};
use pilothouse_domain::{ProjectAgent, ProjectAgentId};
use pilothouse_store::PlacementState;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("agents-health", Verb::Get, "/api/agents/{id}/health", |verb| {
        verb.route(get_agent_health)
    })
    .owner()
    .summary("Get the health of an agent of a project")
    .output::<AgentHealthView>(&[200]);

/// Responds with 200 and what is known: the run, when it was last heard, its worker, the brief that it has, and counters of failures.
/// The agent is not asked.
async fn get_agent_health(
    State(app): State<App>,
    Owner(owner): Owner,
    Id(id): Id<ProjectAgentId>,
) -> Result<Json<AgentHealthView>, Problem> {
    let agent = app.store.aggregate::<ProjectAgent>(&owner, id).await?.ok_or_else(Problem::no_agent)?.value;
    let session = app.session_of(&owner, agent.current_session_id()).await?;
    let (mut heartbeat, mut worker) = (None, None);
    if let Some(run) = session.run() {
        heartbeat = app.store.last_heartbeat(session.id(), run.id).await?;
        worker = match app.store.placement(run.id).await?.map(|placement| placement.value.place) {
            Some(PlacementState::Assigned { worker, .. } | PlacementState::Claimed { worker, .. }) => {
                Some(worker.id.to_string())
            }
            Some(PlacementState::Waiting | PlacementState::Ended { .. }) | None => None,
        };
    }
    Ok(Json(AgentHealthView::of(&agent, &session, heartbeat, worker)))
}
