//! `POST /api/notifications/read`: marks all notifications as read (decision 37).

use std::future::ready;

use axum::Json;
use axum::extract::State;
use pilothouse_api::notifications::ReadNotifications;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::NoBody;
use pilothouse_app::http::{Owner, Problem};
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_domain::DomainContext;
use pilothouse_domain::announcement::Notification;
use pilothouse_store::Loaded;

use super::read::mark;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("notifications-read-all", Verb::Post, "/api/notifications/read", |verb| {
        verb.route(read_all_notifications)
    })
    .owner()
    .summary("Mark all notifications as read")
    .output::<ReadNotifications>(&[200]);

/// The largest number of notifications that one request marks.
const MARKED: usize = 200;

/// Responds with 200, the number of marked notifications, and whether more are unread.
async fn read_all_notifications(
    State(app): State<App>,
    Owner(owner): Owner,
    _: NoBody,
) -> Result<Json<ReadNotifications>, Problem> {
    let listing = app.store.unread(&owner, MARKED, None).await?;
    let mut read = 0;
    for unread in listing.items {
        let load = || ready(Ok(unread.clone()));
        let decide = |loaded: Loaded<Notification>, ctx: &mut DomainContext<'_>| {
            let (commit, _) = mark(&owner, loaded, ctx.now)?;
            Ok(Decision::Commit(commit, ()))
        };
        match app.unit_of_work().run(RetryPolicy::ONCE, load, decide).await {
            Ok(()) => read += 1,
            // Another request has marked it. The index lags behind.
            Err(Problem::VersionConflict) => {}
            Err(other) => return Err(other),
        }
    }
    Ok(Json(ReadNotifications { read, more: listing.next.is_some() }))
}
