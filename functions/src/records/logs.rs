//! `GET /api/agents/sessions/{id}/logs`: log chunks in order (S0 8.7 `GetSessionOutputStreamQuery`).

use axum::Json;
use axum::extract::State;
use pilothouse_store::layout;

use super::paging::Scope;
use super::view;
use crate::api::Page;
use crate::api::records::LogChunkView;
use crate::app::App;
use crate::edge::{Owner, PageRequest, Problem, Session};

/// 200 with a page.
pub async fn handle(
    State(app): State<App>,
    Owner(owner): Owner,
    Session(id): Session,
    page: PageRequest,
) -> Result<Json<Page<LogChunkView>>, Problem> {
    app.session_of(&owner, id).await?;
    let scope = Scope::new("logs", layout::logs_partition(id));
    let listing = app.store.logs(id, page.limit, scope.decode(&page)?).await?;
    Ok(Json(Page {
        items: listing.items.iter().filter_map(view::log_chunk).collect(),
        next_cursor: listing.next.map(|position| scope.encode(&position)),
    }))
}
