//! `GET /api/notifications`: lists the owner's notifications, newest first (decision 37).

use axum::Json;
use axum::extract::State;
use pilothouse_api::Page;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Owner, PageRequest, Problem};
use pilothouse_app::paging::Scope;
use pilothouse_domain::announcement::Notification;
use pilothouse_store::layout;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("notifications-list", Verb::Get, "/api/notifications", |verb| {
        verb.route(list_notifications)
    })
    .owner()
    .summary("List notifications, newest first")
    .query(&["limit", "cursor", "unread"])
    .output::<Page<Notification>>(&[200]);

/// Responds with 200 and a page. `unread=true` limits the list to unread notifications. Notifications expire after 90 days.
async fn list_notifications(
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
