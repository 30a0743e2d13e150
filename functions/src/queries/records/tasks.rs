//! `GET /api/agents/sessions/{id}/tasks`: lists the tasks that the agent created through the agent API (AG-012, decision 37).

use axum::Json;
use axum::extract::State;
use pilothouse_api::Page;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, PAGE, Verb};
use pilothouse_app::http::{Owner, PageRequest, Problem, Session};
use pilothouse_app::paging::Scope;
use pilothouse_domain::agent_api::AgentTask;
use pilothouse_store::layout;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("records-tasks", Verb::Get, "/api/agents/sessions/{id}/tasks", |verb| {
        verb.route(list_tasks)
    })
    .owner()
    .summary("List the tasks that an agent created")
    .query(PAGE)
    .output::<Page<AgentTask>>(&[200]);

/// Responds with 200 and a page, oldest first.
async fn list_tasks(
    State(app): State<App>,
    Owner(owner): Owner,
    Session(id): Session,
    page: PageRequest,
) -> Result<Json<Page<AgentTask>>, Problem> {
    app.session_of(&owner, id).await?;
    let scope = Scope::of_table("tasks", layout::session_partition(id));
    let listing = app.store.agent_tasks(id, page.limit, scope.decode(&page)?).await?;
    Ok(Json(scope.page(listing.items, listing.next)))
}
