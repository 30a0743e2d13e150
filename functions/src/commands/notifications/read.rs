//! `POST /api/notifications/{id}/read`: marks a notification as read (decision 37).

use axum::Json;
use axum::extract::State;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::NoBody;
use pilothouse_app::http::request::Numbered;
use pilothouse_app::http::{Owner, Problem};
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_domain::announcement::Notification;
use pilothouse_domain::{DomainContext, Timestamp, UserId};
use pilothouse_store::{Commit, Loaded, StoreError};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("notifications-read", Verb::Post, "/api/notifications/{id}/read", |verb| {
        verb.route(read_notification)
    })
    .owner()
    .summary("Mark a notification as read")
    .output::<Notification>(&[200]);

/// Responds with 200 and the notification. A repeated request keeps the time of the first one.
async fn read_notification(
    State(app): State<App>,
    Owner(owner): Owner,
    Numbered(sequence): Numbered,
    _: NoBody,
) -> Result<Json<Notification>, Problem> {
    let load = async || {
        let loaded = app.store.notification(&owner, sequence).await?;
        loaded.ok_or_else(|| Problem::NotFound("there is no such notification".to_owned()))
    };
    let decide = |loaded: Loaded<Notification>, ctx: &mut DomainContext<'_>| {
        if loaded.value.read_at.is_some() {
            return Ok(Decision::Unchanged(loaded.value));
        }
        let (commit, read) = mark(&owner, loaded, ctx.now)?;
        Ok(Decision::Commit(commit, read))
    };
    app.unit_of_work().run(RetryPolicy::COMMAND, load, decide).await.map(Json)
}

/// Marks a notification as read.
pub(super) fn mark(
    owner: &UserId,
    mut loaded: Loaded<Notification>,
    now: Timestamp,
) -> Result<(Commit, Notification), StoreError> {
    loaded.value.read_at = Some(now);
    let mut commit = Commit::new();
    commit.notification(owner, &loaded)?;
    Ok((commit, loaded.value))
}
