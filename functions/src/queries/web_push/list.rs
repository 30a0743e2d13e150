//! `GET /api/web-push/subscriptions`: lists the browsers of an owner that receive notifications (decision 98).

use axum::Json;
use axum::extract::State;
use pilothouse_api::web_push::WebPushSubscriptionsView;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Owner, Problem};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("web-push-list", Verb::Get, "/api/web-push/subscriptions", |verb| {
        verb.route(list_subscriptions)
    })
    .owner()
    .summary("List the browsers that receive notifications")
    .output::<WebPushSubscriptionsView>(&[200]);

/// Responds with 200 and all subscriptions, oldest first, without their keys.
async fn list_subscriptions(
    State(app): State<App>,
    Owner(owner): Owner,
) -> Result<Json<WebPushSubscriptionsView>, Problem> {
    let known = app.store.web_push_subscriptions(&owner).await?.value;
    Ok(Json(WebPushSubscriptionsView { items: known.items().iter().map(Into::into).collect() }))
}
