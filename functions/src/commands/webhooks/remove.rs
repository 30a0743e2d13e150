//! `DELETE /api/webhooks/{id}`: removes a webhook. Pending deliveries are dropped.

use axum::extract::State;
use http::StatusCode;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::WebhookOf;
use pilothouse_app::http::{Owner, Problem};
use pilothouse_store::{Commit, CommitError, Store};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("webhooks-remove", Verb::Delete, "/api/webhooks/{id}", |verb| verb.route(handle))
        .owner()
        .summary("Remove a webhook")
        .statuses(&[204]);

/// Responds with 204.
async fn handle(
    State(app): State<App>,
    Owner(owner): Owner,
    WebhookOf(id): WebhookOf,
) -> Result<StatusCode, Problem> {
    for attempt in 0..super::TRIES {
        let webhook = crate::queries::webhooks::webhook_of(&app, &owner, id).await?;
        let mut commit = Commit::new();
        commit.remove_webhook(&webhook);
        match app.store.commit(commit).await {
            Ok(()) => return Ok(StatusCode::NO_CONTENT),
            Err(CommitError::Conflict) => {
                tokio::time::sleep(Store::backoff(attempt, rand::random())).await;
            }
            Err(other) => return Err(other.into()),
        }
    }
    Err(Problem::VersionConflict)
}
