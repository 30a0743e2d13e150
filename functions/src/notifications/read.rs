//! `POST /api/notifications/{id}/read`: an owner has read a notification (ruling 37).

use axum::Json;
use axum::extract::State;
use pilothouse_domain::UserId;
use pilothouse_domain::announcement::Notification;
use pilothouse_store::{Commit, CommitError, Loaded, Store};

use crate::app::App;
use crate::edge::input::NoBody;
use crate::edge::request::Numbered;
use crate::edge::{Owner, Problem};

/// How often a lost race is run again.
const TRIES: u32 = 12;

/// 200 with the notification. Reading it again changes nothing: the first time stays.
pub async fn handle(
    State(app): State<App>,
    Owner(owner): Owner,
    Numbered(sequence): Numbered,
    _: NoBody,
) -> Result<Json<Notification>, Problem> {
    for attempt in 0..TRIES {
        let loaded = app.store.notification(&owner, sequence).await?;
        let loaded = loaded.ok_or_else(|| Problem::NotFound("there is no such notification".to_owned()))?;
        if loaded.value.read_at.is_some() {
            return Ok(Json(loaded.value));
        }
        match mark(&app, &owner, loaded).await {
            Ok(read) => return Ok(Json(read)),
            Err(CommitError::Conflict) => {
                tokio::time::sleep(Store::backoff(attempt, rand::random())).await;
            }
            Err(other) => return Err(other.into()),
        }
    }
    Err(Problem::VersionConflict)
}

/// Marks a notification as read.
pub(super) async fn mark(
    app: &App,
    owner: &UserId,
    mut loaded: Loaded<Notification>,
) -> Result<Notification, CommitError> {
    loaded.value.read_at = Some(app.now());
    let mut commit = Commit::new();
    commit.notification(owner, &loaded)?;
    app.store.commit(commit).await?;
    Ok(loaded.value)
}
