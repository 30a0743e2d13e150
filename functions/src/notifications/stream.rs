//! `WS /ws/notifications?after=CURSOR`: notifications as they come, on the embedded server. Elsewhere clients ask for the
//! list again, or listen to the topic.

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use pilothouse_domain::UserId;

use crate::api::telling::{NotificationBody, NotificationMessage};
use crate::app::App;
use crate::edge::request::Parameters;
use crate::edge::{Owner, Problem};
use crate::intake::chain;
use crate::stream::connect::{PING, deliver};

/// Notifications that are read at once.
const READ: usize = 100;

/// Without `after` the stream begins now; with the cursor of an earlier message it misses nothing that came since.
pub async fn handle(
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
            tracing::debug!(cause = %chain(&cause), "a stream of notifications ended");
        }
    }))
}

async fn follow(app: &App, owner: &UserId, mut after: u64, mut socket: WebSocket) -> Result<(), Problem> {
    let mut wake = app.wakes.watch_owner(owner);
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
            grown = wake.grown() => if !grown { return Ok(()) },
            said = socket.recv() => match said {
                // Nothing that a client says changes the stream.
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
