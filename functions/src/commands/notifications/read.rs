//! `POST /api/notifications/{id}/read`: marks a notification as read (decision 37).

use axum::Json;
use axum::extract::State;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::NoBody;
use pilothouse_app::http::request::Numbered;
use pilothouse_app::http::{Owner, Problem};
use pilothouse_domain::UserId;
use pilothouse_domain::announcement::Notification;
use pilothouse_store::{Commit, CommitError, Loaded, Store};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("notifications-read", Verb::Post, "/api/notifications/{id}/read", |verb| {
        verb.route(handle)
    })
    .owner()
    .summary("Mark a notification as read")
    .output::<Notification>(&[200]);

/// The largest number of attempts after conflicts.
const TRIES: u32 = 12;

/// Responds with 200 and the notification. A repeated request keeps the time of the first one.
async fn handle(
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
