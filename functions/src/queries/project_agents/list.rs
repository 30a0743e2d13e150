//! `GET /api/agents`: lists the agents of a project, oldest first (S2, "Frontend REST API").

use axum::Json;
use axum::extract::State;
use pilothouse_api::Page;
use pilothouse_api::projects::AgentView;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Owner, PageRequest, Problem};
use pilothouse_domain::ProjectAgentId;
use pilothouse_store::cursor;
use pilothouse_store::table::Position;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("agents-list", Verb::Get, "/api/agents", |verb| verb.route(list_agents))
        .owner()
        .summary("List the agents of a project, oldest first")
        .query(&["limit", "cursor", "projectId"])
        .output::<Page<AgentView>>(&[200]);

/// Responds with 200 and a page. An owner with one project may leave out `projectId`.
async fn list_agents(
    State(app): State<App>,
    Owner(owner): Owner,
    page: PageRequest,
    parameters: Parameters,
) -> Result<Json<Page<AgentView>>, Problem> {
    let project = app.chosen_project(&owner, parameters.parsed("projectId")?).await?.value;
    let partition = project.id().to_string();
    let scope = cursor::Scope { list: "agents", index: None, partition: &partition };
    let after = after(&scope, &page)?;
    let mut ids = project.agents().keys().copied().filter(|id| after.is_none_or(|after| *id > after));
    let mut items = Vec::new();
    for id in ids.by_ref().take(page.limit) {
        items.push(app.agent_view(&owner, id).await?);
    }
    let last = items.last().filter(|_| ids.next().is_some());
    let next = last.map(|agent| Position {
        partition: partition.clone(),
        sort: agent.id.to_string(),
        index_sort: None,
    });
    Ok(Json(Page { next_cursor: next.map(|position| scope.encode(&position)), items }))
}

fn after(scope: &cursor::Scope<'_>, page: &PageRequest) -> Result<Option<ProjectAgentId>, Problem> {
    let wrong = || Problem::invalid("cursor", "is not a cursor of this list");
    let Some(text) = page.cursor.as_deref() else { return Ok(None) };
    scope.decode(text).map_err(|_| wrong())?.sort.parse().map(Some).map_err(|_| wrong())
}
