//! `WS /ws/notifications?after=CURSOR`: streams notifications on the embedded server. In `aws`, clients poll the list or subscribe
//! to the topic.

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use pilothouse_api::notifications::{NotificationBody, NotificationMessage};
use pilothouse_app::App;
use pilothouse_app::error_chain;
use pilothouse_app::function::requirements::EMBEDDED;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Owner, Problem};
use pilothouse_domain::UserId;

use crate::realtime::connect::{PING, deliver};

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
    let mut told = false;
    loop {
        let listing = app.store.notifications_after(owner, after, READ).await?;
        for notification in listing.items {
            after = notification.sequence;
            send(&mut socket, after, NotificationBody::Notification(notification)).await?;
        }
        if listing.next.is_some() {
            continue;
        }
        if !told {
            told = true;
            send(&mut socket, after, NotificationBody::CaughtUp {}).await?;
        }
        tokio::select! {
            open = changes.changed() => if !open { return Ok(()) },
            said = socket.recv() => match said {
                // Messages from the client have no effect.
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Ok(()),
                Some(Ok(_)) => {},
            },
            () = tokio::time::sleep(PING) => {
                deliver(&mut socket, Message::Ping(bytes::Bytes::new())).await?;
            },
        }
    }
}

async fn send(socket: &mut WebSocket, cursor: u64, body: NotificationBody) -> Result<(), Problem> {
    let message = NotificationMessage { cursor: cursor.to_string(), body };
    let text = serde_json::to_string(&message).map_err(Problem::internal)?;
    deliver(socket, Message::Text(text.into())).await
}
