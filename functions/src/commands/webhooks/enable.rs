//! `POST /api/webhooks/{id}/enable`: enables a webhook that was disabled after failed deliveries. Missed events are not
//! delivered again. The feed (`GET /api/events`) contains them.

use axum::Json;
use axum::extract::State;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::NoBody;
use pilothouse_app::http::request::WebhookOf;
use pilothouse_app::http::{Owner, Problem};
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_domain::DomainContext;
use pilothouse_domain::webhook::Webhook;
use pilothouse_store::{Commit, Loaded};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("webhooks-enable", Verb::Post, "/api/webhooks/{id}/enable", |verb| {
        verb.route(enable_webhook)
    })
    .owner()
    .summary("Enable a disabled webhook")
    .output::<Webhook>(&[200]);

/// Responds with 200 and the webhook.
async fn enable_webhook(
    State(app): State<App>,
    Owner(owner): Owner,
    WebhookOf(id): WebhookOf,
    _: NoBody,
) -> Result<Json<Webhook>, Problem> {
    let load = async || crate::loading::load_webhook(&app, &owner, id).await;
    let decide = |mut webhook: Loaded<Webhook>, _: &mut DomainContext<'_>| {
        if !webhook.value.enable() {
            return Ok(Decision::Unchanged(webhook.value));
        }
        let mut commit = Commit::new();
        commit.webhook(&webhook)?;
        Ok(Decision::Commit(commit, webhook.value))
    };
    app.unit_of_work().run(RetryPolicy::COMMAND, load, decide).await.map(Json)
}
