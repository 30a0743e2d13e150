//! `GET /api/projects/{id}/snapshot`: returns the knowledge of a project within the scope of an agent (S2 `getSnapshot`; decision 84).

use axum::Json;
use axum::extract::State;
use pilothouse_app::App;
use pilothouse_app::function::requirements::COMMAND;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Id, Owner, Problem};
use pilothouse_domain::knowledge::{KnowledgeSnapshot, TokenBudget};
use pilothouse_domain::{Project, ProjectAgent, ProjectAgentId, ProjectId};

use crate::knowledge::snapshot::{agents_in_scope, snapshot_of};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("projects-snapshot", Verb::Get, "/api/projects/{id}/snapshot", |verb| {
        verb.route(get_snapshot)
    })
    .owner()
    .summary("Get the knowledge of a project that an agent may read")
    .query(&["agentId", "tokens"])
    .output::<KnowledgeSnapshot>(&[200])
    // Each snapshot of an agent gets a number, which is stored.
    .requires(COMMAND);

/// Responds with 200 and the snapshot. `tokens` limits its size: 1,000 to 32,000, by default 4,000.
async fn get_snapshot(
    State(app): State<App>,
    Owner(owner): Owner,
    Id(id): Id<ProjectId>,
    parameters: Parameters,
) -> Result<Json<KnowledgeSnapshot>, Problem> {
    let project = app.store.aggregate::<Project>(&owner, id).await?.ok_or_else(Problem::no_project)?.value;
    let agent: ProjectAgentId =
        parameters.parsed("agentId")?.ok_or_else(|| Problem::invalid("agentId", "is missing"))?;
    let budget = match parameters.parsed("tokens")? {
        Some(tokens) => TokenBudget::new(tokens).map_err(|wrong| Problem::invalid("tokens", wrong))?,
        None => TokenBudget::DEFAULT,
    };
    let agent = app.store.aggregate::<ProjectAgent>(&owner, agent).await?.map(|loaded| loaded.value);
    let agent = agent.filter(|agent| agent.project_id() == id).ok_or_else(Problem::no_agent)?;
    let agents = agents_in_scope(&app, &project, &agent).await?;
    Ok(Json(snapshot_of(&app, &project, &agent, &agents, budget).await?))
}
