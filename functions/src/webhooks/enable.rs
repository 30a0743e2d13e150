//! `POST /api/webhooks/{id}/enable`: an owner takes up an endpoint again that was given up. What was given up with it stays
//! so: the feed (`GET /api/events`) has what it missed.

use axum::Json;
use axum::extract::State;
use pilothouse_domain::webhook::Webhook;
use pilothouse_store::{Commit, CommitError, Store};

use crate::app::App;
use crate::edge::input::NoBody;
use crate::edge::request::WebhookOf;
use crate::edge::{Owner, Problem};

/// 200 with the webhook.
pub async fn handle(
    State(app): State<App>,
    Owner(owner): Owner,
    WebhookOf(id): WebhookOf,
    _: NoBody,
) -> Result<Json<Webhook>, Problem> {
    for attempt in 0..super::TRIES {
        let mut webhook = super::webhook_of(&app, &owner, id).await?;
        if webhook.value.disabled.take().is_none() {
            return Ok(Json(webhook.value));
        }
        let mut commit = Commit::new();
        commit.webhook(&webhook)?;
        match app.store.commit(commit).await {
            Ok(()) => return Ok(Json(webhook.value)),
            Err(CommitError::Conflict) => {
                tokio::time::sleep(Store::backoff(attempt, rand::random())).await;
            }
            Err(other) => return Err(other.into()),
        }
    }
    Err(Problem::VersionConflict)
}
