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
use pilothouse_domain::journal::JournalEntry;
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
    let read = |limit, after| app.store.logs(id, limit, after);
    // Some entries have no chunk any more.
    let chunk = |entry: JournalEntry| journal_views::log_chunk(&entry);
    Ok(Json(scope.read(&page, read, chunk).await?))
}
