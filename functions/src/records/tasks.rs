//! `GET /api/agents/sessions/{id}/tasks`: tasks that the agent created through its API (AG-012, ruling 37).

use axum::Json;
use axum::extract::State;
use pilothouse_domain::agent_api::AgentTask;
use pilothouse_store::layout;

use super::paging::Scope;
use crate::api::Page;
use crate::app::App;
use crate::edge::{Owner, PageRequest, Problem, Session};

/// 200 with a page, oldest first.
pub async fn handle(
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
