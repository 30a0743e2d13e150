//! `GET /api/agents/sessions/{id}/logs`: lists log chunks in order (S0 8.7 `GetSessionOutputStreamQuery`).

use axum::Json;
use axum::extract::State;
use pilothouse_api::Page;
use pilothouse_api::records::LogChunkView;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, PAGE, Verb};
use pilothouse_app::http::{Owner, PageRequest, Problem, Session};
use pilothouse_app::journal_views;
use pilothouse_app::paging::Scope;
use pilothouse_store::layout;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("records-logs", Verb::Get, "/api/agents/sessions/{id}/logs", |verb| {
        verb.route(list_logs)
    })
    .owner()
    .summary("List the log chunks of a session")
    .query(PAGE)
    .output::<Page<LogChunkView>>(&[200]);

/// Responds with 200 and a page.
async fn list_logs(
    State(app): State<App>,
    Owner(owner): Owner,
    Session(id): Session,
    page: PageRequest,
) -> Result<Json<Page<LogChunkView>>, Problem> {
    app.session_of(&owner, id).await?;
    let scope = Scope::new("logs", layout::logs_partition(id));
    let mut after = scope.decode(&page)?;
    loop {
        let listing = app.store.logs(id, page.limit, after).await?;
        let items: Vec<_> = listing.items.iter().filter_map(journal_views::log_chunk).collect();
        after = listing.next;
        // Some entries have no chunk any more. An empty page would look like the end of the list.
        if !items.is_empty() || after.is_none() {
            return Ok(Json(Page { items, next_cursor: after.map(|position| scope.encode(&position)) }));
        }
    }
}
