//! `GET /api/notifications`: what an owner was notified of, newest first (ruling 37).

use axum::Json;
use axum::extract::State;
use pilothouse_domain::announcement::Notification;
use pilothouse_store::layout;

use crate::api::Page;
use crate::app::App;
use crate::edge::request::Parameters;
use crate::edge::{Owner, PageRequest, Problem};
use crate::records::paging::Scope;

/// 200 with a page; `unread=true` keeps those that were not read. They expire after 90 days.
pub async fn handle(
    State(app): State<App>,
    Owner(owner): Owner,
    page: PageRequest,
    parameters: Parameters,
) -> Result<Json<Page<Notification>>, Problem> {
    let unread: bool = parameters
        .parsed("unread")
        .map_err(|_| Problem::invalid("unread", "must be true or false"))?
        .unwrap_or(false);
    if !unread {
        let scope = Scope::of_table("notifications", layout::feed_partition(&owner));
        let listing = app.store.notifications(&owner, page.limit, scope.decode(&page)?).await?;
        return Ok(Json(scope.page(listing.items, listing.next)));
    }
    let scope = Scope::new("notifications", layout::unread_partition(&owner)).filtered("unread");
    let listing = app.store.unread(&owner, page.limit, scope.decode(&page)?).await?;
    let items = listing.items.into_iter().map(|loaded| loaded.value).collect();
    Ok(Json(scope.page(items, listing.next)))
}
