//! `WS /ws/notifications?after=CURSOR`: streams notifications on the embedded server. In `aws`, clients poll the list or subscribe
//! to the topic.

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{WebSocket, WebSocketUpgrade};
use axum::response::Response;
use pilothouse_api::notifications::{NotificationBody, NotificationMessage};
use pilothouse_app::App;
use pilothouse_app::error_chain;
use pilothouse_app::function::requirements::EMBEDDED;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Owner, Problem};
use pilothouse_domain::UserId;

use crate::realtime::socket::{send, wait_for_change};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("notifications-stream", Verb::Get, "/ws/notifications", |verb| {
        verb.route(stream_notifications)
    })
    .owner()
    .summary("Follow notifications live (WebSocket)")
    .query(&["after"])
    .statuses(&[101])
    .requires(EMBEDDED);

/// Notifications per read.
const READ: usize = 100;

/// Without `after`, the stream starts now. With the cursor of an earlier message it misses nothing.
async fn stream_notifications(
    State(app): State<App>,
    Owner(owner): Owner,
    parameters: Parameters,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let upgrade = upgrade.map_err(|_| Problem::invalid("Upgrade", "this address speaks WebSocket only"))?;
    let head = app.store.feed(&owner).await?.value.last;
    let after = match parameters.text("after") {
        None => head,
        Some(text) => text
            .parse()
            .ok()
            .filter(|after| *after <= head)
            .ok_or_else(|| Problem::invalid("after", "is not a cursor of this stream"))?,
    };
    Ok(upgrade.on_upgrade(move |socket| async move {
        if let Err(cause) = follow(&app, &owner, after, socket).await {
            tracing::debug!(cause = %error_chain(&cause), "a stream of notifications ended");
        }
    }))
}

async fn follow(app: &App, owner: &UserId, mut after: u64, mut socket: WebSocket) -> Result<(), Problem> {
    let mut changes = app.change_notifier.subscribe_to_owner(owner);
    let mut caught_up = false;
    loop {
        let listing = app.store.notifications_after(owner, after, READ).await?;
        for notification in listing.items {
            after = notification.sequence;
            send(&mut socket, &message(after, NotificationBody::Notification(notification))).await?;
        }
        if listing.next.is_some() {
            continue;
        }
        if !caught_up {
            caught_up = true;
            send(&mut socket, &message(after, NotificationBody::CaughtUp {})).await?;
        }
        if !wait_for_change(&mut socket, &mut *changes).await? {
            return Ok(());
        }
    }
}

fn message(cursor: u64, body: NotificationBody) -> NotificationMessage {
    NotificationMessage { cursor: cursor.to_string(), body }
}
