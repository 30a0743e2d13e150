//! `GET /api/webhooks/{id}/deliveries`: what became of telling an endpoint.

use axum::Json;
use axum::extract::State;
use pilothouse_domain::webhook::Delivery;
use pilothouse_store::layout;

use crate::api::Page;
use crate::app::App;
use crate::edge::request::WebhookOf;
use crate::edge::{Owner, PageRequest, Problem};
use crate::records::paging::Scope;

/// 200 with a page, newest first: each delivery that was tried, with its attempts.
pub async fn handle(
    State(app): State<App>,
    Owner(owner): Owner,
    WebhookOf(id): WebhookOf,
    page: PageRequest,
) -> Result<Json<Page<Delivery>>, Problem> {
    super::webhook_of(&app, &owner, id).await?;
    let scope = Scope::of_table("deliveries", layout::deliveries_partition(id));
    let listing = app.store.deliveries(id, page.limit, scope.decode(&page)?).await?;
    Ok(Json(scope.page(listing.items, listing.next)))
}
