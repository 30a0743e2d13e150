//! `GET /api/webhooks/{id}/deliveries`: lists the deliveries of a webhook.

use axum::Json;
use axum::extract::State;
use pilothouse_api::Page;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, PAGE, Verb};
use pilothouse_app::http::request::WebhookOf;
use pilothouse_app::http::{Owner, PageRequest, Problem};
use pilothouse_app::paging::Scope;
use pilothouse_domain::webhook::Delivery;
use pilothouse_store::layout;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("webhooks-deliveries", Verb::Get, "/api/webhooks/{id}/deliveries", |verb| {
        verb.route(list_deliveries)
    })
    .owner()
    .summary("List the deliveries of a webhook")
    .query(PAGE)
    .output::<Page<Delivery>>(&[200]);

/// Responds with 200 and a page, newest first. Each attempted delivery is listed with its attempts.
async fn list_deliveries(
    State(app): State<App>,
    Owner(owner): Owner,
    WebhookOf(id): WebhookOf,
    page: PageRequest,
) -> Result<Json<Page<Delivery>>, Problem> {
    crate::loading::load_webhook(&app, &owner, id).await?;
    let scope = Scope::of_table("deliveries", layout::deliveries_partition(id));
    let listing = app.store.deliveries(id, page.limit, scope.decode(&page)?).await?;
    Ok(Json(scope.page(listing.items, listing.next)))
}
