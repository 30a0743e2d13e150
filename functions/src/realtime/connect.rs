//! `WS /ws/agents/sessions/{id}/stream?after=CURSOR`: follows a session on the embedded server.

use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use pilothouse_api::stream::{StreamBody, StreamMessage, cursor};
use pilothouse_app::App;
use pilothouse_app::error_chain;
use pilothouse_app::function::requirements::EMBEDDED;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Owner, Problem, Session};
use pilothouse_app::live_stream::{messages, place};
use pilothouse_domain::{AgentSessionId, UserId};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("stream-connect", Verb::Get, "/ws/agents/sessions/{id}/stream", |verb| {
        verb.route(stream_session)
    })
    .owner()
    .summary("Follow a session live (WebSocket)")
    .query(&["after"])
    .statuses(&[101])
    .requires(EMBEDDED);

/// The interval of pings on an idle stream, which detect dead connections.
pub(crate) const PING: Duration = Duration::from_secs(20);
/// The time that a client has to accept a message.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);
/// Entries per read.
const READ: usize = 200;

/// Without `after`, the stream starts with the first entry of the session.
async fn stream_session(
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
            tracing::debug!(session = %id, cause = %error_chain(&cause), "a live stream ended");
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
    let mut changes = app.change_notifier.subscribe(id);
    let mut told = false;
    loop {
        let session = app.session_of(owner, id).await?;
        let entries = app.store.journal(id, after, READ).await?;
        let more = entries.len() == READ;
        for entry in entries {
            // `seen` counts messages of the entry after the cursor. That entry may have expired.
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

async fn send(socket: &mut WebSocket, message: &StreamMessage) -> Result<(), Problem> {
    let text = serde_json::to_string(message).map_err(Problem::internal)?;
    deliver(socket, Message::Text(text.into())).await
}

/// Sends a message. A client that does not accept it in time is disconnected; it can reconnect with its cursor.
pub(crate) async fn deliver(socket: &mut WebSocket, message: Message) -> Result<(), Problem> {
    let sent = tokio::time::timeout(SEND_TIMEOUT, socket.send(message)).await;
    sent.map_err(Problem::internal)?.map_err(Problem::internal)
}
