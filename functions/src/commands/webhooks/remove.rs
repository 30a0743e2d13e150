//! `DELETE /api/webhooks/{id}`: removes a webhook. Pending deliveries are dropped.

use axum::extract::State;
use http::StatusCode;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::WebhookOf;
use pilothouse_app::http::{Owner, Problem};
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_domain::DomainContext;
use pilothouse_domain::webhook::Webhook;
use pilothouse_store::{Commit, Loaded};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("webhooks-remove", Verb::Delete, "/api/webhooks/{id}", |verb| {
        verb.route(remove_webhook)
    })
    .owner()
    .summary("Remove a webhook")
    .statuses(&[204]);

/// Responds with 204.
async fn remove_webhook(
    State(app): State<App>,
    Owner(owner): Owner,
    WebhookOf(id): WebhookOf,
) -> Result<StatusCode, Problem> {
    let load = async || crate::loading::load_webhook(&app, &owner, id).await;
    let decide = |webhook: Loaded<Webhook>, _: &mut DomainContext<'_>| {
        let mut commit = Commit::new();
        commit.remove_webhook(&webhook);
        Ok(Decision::Commit(commit, StatusCode::NO_CONTENT))
    };
    app.unit_of_work().run(RetryPolicy::COMMAND, load, decide).await
}
