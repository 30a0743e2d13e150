//! `DELETE /api/webhooks/{id}`: an owner removes an endpoint. What was still to be delivered is not.

use axum::extract::State;
use http::StatusCode;
use pilothouse_store::{Commit, CommitError, Store};

use crate::app::App;
use crate::edge::request::WebhookOf;
use crate::edge::{Owner, Problem};

/// 204.
pub async fn handle(
    State(app): State<App>,
    Owner(owner): Owner,
    WebhookOf(id): WebhookOf,
) -> Result<StatusCode, Problem> {
    for attempt in 0..super::TRIES {
        let webhook = super::webhook_of(&app, &owner, id).await?;
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
