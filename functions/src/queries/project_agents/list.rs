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
use pilothouse_domain::project::AgentStatus;
use pilothouse_domain::text::WorkstreamId;
use pilothouse_store::cursor;
use pilothouse_store::table::Position;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("agents-list", Verb::Get, "/api/agents", |verb| verb.route(list_agents))
        .owner()
        .summary("List the agents of a project, oldest first")
        .query(&["limit", "cursor", "projectId", "status", "pluginName", "workstream"])
        .output::<Page<AgentView>>(&[200]);

/// Responds with 200 and a page. An owner with one project may omit `projectId`. `status`, `pluginName` and `workstream` filter.
async fn list_agents(
    State(app): State<App>,
    Owner(owner): Owner,
    page: PageRequest,
    parameters: Parameters,
) -> Result<Json<Page<AgentView>>, Problem> {
    let project = app.chosen_project(&owner, parameters.parsed("projectId")?).await?.value;
    let status = parameters.one_of("status", &AgentStatus::ALL)?;
    let (plugin, workstream) = (parameters.text("pluginName"), parameters.text("workstream"));
    let filter = ["status", "pluginName", "workstream"].map(|name| parameters.text(name).unwrap_or_default());
    let partition = format!("{}&{}", project.id(), filter.join("&"));
    let scope = cursor::Scope { list: "agents", index: None, partition: &partition };
    let after = after(&scope, &page)?;
    let in_workstream = |of: &WorkstreamId| workstream.is_none_or(|workstream| of.as_str() == workstream);
    let agents = project.agents().iter().filter(|(_, of)| in_workstream(of)).map(|(id, _)| *id);
    let mut ids = agents.filter(|id| after.is_none_or(|after| *id > after));
    let mut items = Vec::new();
    let mut read = None;
    while items.len() < page.limit
        && let Some(id) = ids.next()
    {
        let agent = app.agent_view(&owner, id).await?;
        let is_wanted = status.is_none_or(|status| agent.status == status)
            && plugin.is_none_or(|plugin| agent.plugin_name == plugin);
        items.extend(is_wanted.then_some(agent));
        read = Some(id);
    }
    let last = read.filter(|_| ids.next().is_some());
    let next =
        last.map(|id| Position { partition: partition.clone(), sort: id.to_string(), index_sort: None });
    Ok(Json(Page { next_cursor: next.map(|position| scope.encode(&position)), items }))
}

fn after(scope: &cursor::Scope<'_>, page: &PageRequest) -> Result<Option<ProjectAgentId>, Problem> {
    let wrong = || Problem::invalid("cursor", "is not a cursor of this list");
    let Some(text) = page.cursor.as_deref() else { return Ok(None) };
    scope.decode(text).map_err(|_| wrong())?.sort.parse().map(Some).map_err(|_| wrong())
}
