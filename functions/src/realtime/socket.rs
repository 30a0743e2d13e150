//! The socket of a live stream on the embedded server.

use std::time::Duration;

use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use pilothouse_app::change_notifier::ChangeSubscription;
use pilothouse_app::error_chain;
use pilothouse_app::http::Problem;
use serde::Serialize;

/// The interval of pings on an idle stream, which detect dead connections.
const PING: Duration = Duration::from_secs(20);
/// The time that a client has to accept a message.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);

/// Upgrades the connection, and runs a stream that has no cursor until it ends.
pub(super) fn serve<F>(
    stream: &'static str,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    follow: impl FnOnce(WebSocket) -> F + Send + 'static,
) -> Result<Response, Problem>
where
    F: Future<Output = Result<(), Problem>> + Send,
{
    let upgrade = upgrade.map_err(|_| Problem::invalid("Upgrade", "this address speaks WebSocket only"))?;
    Ok(upgrade.on_upgrade(move |socket| async move {
        if let Err(cause) = follow(socket).await {
            tracing::debug!(stream, cause = %error_chain(&cause), "a live stream ended");
        }
    }))
}

/// Waits until the data of the stream may have changed. Returns false when the stream is over.
pub(super) async fn wait_for_change(
    socket: &mut WebSocket,
    changes: &mut dyn ChangeSubscription,
) -> Result<bool, Problem> {
    let next = async { changes.changed().await.then_some(()) };
    Ok(next_change(socket, next).await?.is_some())
}

/// Waits for a change, and sends pings meanwhile. Returns `None` when the stream is over.
pub(super) async fn next_change<T>(
    socket: &mut WebSocket,
    change: impl Future<Output = Option<T>>,
) -> Result<Option<T>, Problem> {
    let mut change = std::pin::pin!(change);
    loop {
        tokio::select! {
            change = &mut change => return Ok(change),
            said = socket.recv() => match said {
                // Messages from the client have no effect.
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Ok(None),
                Some(Ok(_)) => {},
            },
            () = tokio::time::sleep(PING) => deliver(socket, Message::Ping(bytes::Bytes::new())).await?,
        }
    }
}

pub(super) async fn send<T: Serialize>(socket: &mut WebSocket, message: &T) -> Result<(), Problem> {
    let text = serde_json::to_string(message).map_err(Problem::internal)?;
    deliver(socket, Message::Text(text.into())).await
}

/// Sends a message. A client that does not accept it in time is disconnected; it can reconnect.
async fn deliver(socket: &mut WebSocket, message: Message) -> Result<(), Problem> {
    let sent = tokio::time::timeout(SEND_TIMEOUT, socket.send(message)).await;
    sent.map_err(Problem::internal)?.map_err(Problem::internal)
}
