//! `GET /api/webhooks`: lists the webhooks of an owner.

use axum::Json;
use axum::extract::State;
use pilothouse_api::webhooks::WebhooksView;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Owner, Problem};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("webhooks-list", Verb::Get, "/api/webhooks", |verb| verb.route(list_webhooks))
        .owner()
        .summary("List webhooks")
        .output::<WebhooksView>(&[200]);

/// Responds with 200 and all webhooks, oldest first, without their secrets.
async fn list_webhooks(State(app): State<App>, Owner(owner): Owner) -> Result<Json<WebhooksView>, Problem> {
    Ok(Json(WebhooksView { items: app.store.webhooks(&owner).await? }))
}
