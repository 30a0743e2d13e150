//! `WS /ws/agents/sessions/{id}/stream?after=CURSOR`: follows a session on the embedded server.

use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use pilothouse_domain::{AgentSessionId, UserId};

use super::{messages, place};
use crate::api::stream::{StreamBody, StreamMessage, cursor};
use crate::app::App;
use crate::edge::request::Parameters;
use crate::edge::{Owner, Problem, Session};
use crate::intake::chain;

/// A quiet stream is pinged this often, so that dead connections are noticed.
pub(crate) const PING: Duration = Duration::from_secs(20);
/// How long a client may take nothing.
const PATIENCE: Duration = Duration::from_secs(30);
/// Entries that are read at once.
const READ: usize = 200;

/// Without `after` the stream begins with the session's first entry.
pub async fn handle(
    State(app): State<App>,
    Owner(owner): Owner,
    Session(id): Session,
    parameters: Parameters,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let session = app.session_of(&owner, id).await?;
    let upgrade = upgrade.map_err(|_| Problem::invalid("Upgrade", "this address speaks WebSocket only"))?;
    let after = place(parameters.text("after"), &session)?;
    Ok(upgrade.on_upgrade(move |socket| async move {
        if let Err(cause) = follow(&app, &owner, id, after, socket).await {
            tracing::debug!(session = %id, cause = %chain(&cause), "a live stream ended");
        }
    }))
}

async fn follow(
    app: &App,
    owner: &UserId,
    id: AgentSessionId,
    after: (u64, usize),
    mut socket: WebSocket,
) -> Result<(), Problem> {
    let (mut after, mut seen) = after;
    let mut wake = app.wakes.watch(id);
    let mut told = false;
    loop {
        let session = app.session_of(owner, id).await?;
        let entries = app.store.journal(id, after, READ).await?;
        let more = entries.len() == READ;
        for entry in entries {
            // What was seen is of the entry that follows the cursor; that one may have expired.
            let seen = if entry.sequence == after + 1 { std::mem::take(&mut seen) } else { 0 };
            for message in messages(&entry, &session).into_iter().skip(seen) {
                send(&mut socket, &message).await?;
            }
            after = entry.sequence;
        }
        if more {
            continue;
        }
        if !told {
            told = true;
            send(&mut socket, &StreamMessage { cursor: cursor(after), body: StreamBody::CaughtUp {} })
                .await?;
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

async fn send(socket: &mut WebSocket, message: &StreamMessage) -> Result<(), Problem> {
    let text = serde_json::to_string(message).map_err(Problem::internal)?;
    deliver(socket, Message::Text(text.into())).await
}

/// A client that takes nothing for too long is gone, or as good as; it can come back with its cursor.
pub(crate) async fn deliver(socket: &mut WebSocket, message: Message) -> Result<(), Problem> {
    let sent = tokio::time::timeout(PATIENCE, socket.send(message)).await;
    sent.map_err(Problem::internal)?.map_err(Problem::internal)
}
