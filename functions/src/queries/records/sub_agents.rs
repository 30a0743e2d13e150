//! `GET /api/agents/sessions/{id}/sub-agents`: lists the subagents of a session (S0 8.4 `SubAgentSession`). The lists of
//! messages and tool calls accept a `subAgentId`.

use axum::Json;
use axum::extract::State;
use pilothouse_api::Page;
use pilothouse_api::sessions::SubAgentView;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, PAGE, Verb};
use pilothouse_app::http::{Owner, PageRequest, Problem, Session};
use pilothouse_app::paging::Scope;
use pilothouse_store::layout;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("records-sub-agents", Verb::Get, "/api/agents/sessions/{id}/sub-agents", |verb| {
        verb.route(list_sub_agents)
    })
    .owner()
    .summary("List the subagents of a session")
    .query(PAGE)
    .output::<Page<SubAgentView>>(&[200]);

/// Responds with 200 and a page, in order of the ids.
async fn list_sub_agents(
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
