//! `GET /api/agents/sessions/{id}/sub-agents`: the subagents of a session (S0 8.4 `SubAgentSession`). Their messages and
//! tool calls are lists of their own, by `subAgentId`.

use axum::Json;
use axum::extract::State;
use pilothouse_store::layout;

use super::paging::Scope;
use crate::api::Page;
use crate::api::sessions::SubAgentView;
use crate::app::App;
use crate::edge::{Owner, PageRequest, Problem, Session};

/// 200 with a page, in the order of their ids.
pub async fn handle(
    State(app): State<App>,
    Owner(owner): Owner,
    Session(id): Session,
    page: PageRequest,
) -> Result<Json<Page<SubAgentView>>, Problem> {
    app.session_of(&owner, id).await?;
    let scope = Scope::of_table("sub-agents", layout::session_partition(id));
    let after = scope.decode(&page)?;
    let listing = app.store.subagents(id, page.limit, after).await?;
    Ok(Json(Page {
        items: listing.items.into_iter().map(SubAgentView::from).collect(),
        next_cursor: listing.next.map(|position| scope.encode(&position)),
    }))
}
