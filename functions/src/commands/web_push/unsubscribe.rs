//! `DELETE /api/web-push/subscriptions/{id}`: sends no more notifications to a browser (decision 98).

use axum::extract::State;
use http::StatusCode;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::WebPushSubscriptionOf;
use pilothouse_app::http::{Owner, Problem};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("web-push-unsubscribe", Verb::Delete, "/api/web-push/subscriptions/{id}", |verb| {
        verb.route(unsubscribe)
    })
    .owner()
    .summary("Send no more notifications to a browser")
    .statuses(&[204]);

/// Responds with 204.
async fn unsubscribe(
    State(app): State<App>,
    Owner(owner): Owner,
    WebPushSubscriptionOf(id): WebPushSubscriptionOf,
) -> Result<StatusCode, Problem> {
    if app.change_web_push_subscriptions(&owner, |browsers| browsers.remove(id)).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(Problem::no("subscription"))
    }
}
