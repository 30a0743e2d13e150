//! The live stream (S0 8.9): a client that reconnects with its last cursor receives everything once.

use pilothouse_api::stream::{StreamBody, StreamMessage};
use pilothouse_client::WatchEvent;
use pilothouse_tests::{PATIENCE, Session};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::scripts::{endless, say, script, short, turn};
use crate::server::{Server, started};

/// Many lines, each followed by a tool call, and then rests.
fn lines(count: usize, wait: u64) -> Value {
    let line = |n: usize| {
        [
            say(&format!("line {n}")),
            json!({ "usage": { "costUsd": "0.001", "tokens": { "inputTokens": 1 } } }),
            json!({ "log": { "text": format!("log {n}") } }),
            json!({ "wait": wait }),
        ]
    };
    script(&[turn(&(0..count).flat_map(line).collect::<Vec<_>>())])
}

/// From a cursor until the stream has caught up.
async fn until_caught_up(server: &Server, session: &Session, after: Option<&str>) -> Vec<StreamMessage> {
    let mut stream = server.client().stream(session.id.parse().unwrap(), after).await.unwrap();
    let mut seen = Vec::new();
    loop {
        let message = timeout(PATIENCE, stream.next()).await.unwrap().unwrap().unwrap();
        if matches!(message.body, StreamBody::CaughtUp {}) {
            return seen;
        }
        seen.push(message);
    }
}

/// Cursor, kind and text. Excludes usage, which is current at the time of sending.
fn identity(message: &StreamMessage) -> (String, String) {
    let what = match &message.body {
        StreamBody::Metrics(_) => "metrics".to_owned(),
        other => serde_json::to_string(other).unwrap(),
    };
    (message.cursor.clone(), what)
}

fn identities(messages: &[StreamMessage]) -> Vec<(String, String)> {
    messages.iter().map(identity).collect()
}

/// The stream resumes exactly after every cursor, even in the middle of an entry.
#[tokio::test]
async fn reconnection_resumes_exactly_after_any_cursor() {
    let server = Server::start(1).await;
    let session = started(&server, &lines(5, 1)).await;
    session.until_status("Idle").await;
    let all = until_caught_up(&server, &session, None).await;
    let within = all.iter().filter(|m| m.cursor.contains('.')).count();
    assert!(within > 0, "some entries have several messages: {:?}", identities(&all));
    let mut cursors: Vec<_> = all.iter().map(|m| m.cursor.clone()).collect();
    cursors.dedup();
    assert_eq!(cursors.len(), all.len(), "each message has its own cursor");
    for (at, message) in all.iter().enumerate() {
        let rest = until_caught_up(&server, &session, Some(&message.cursor)).await;
        assert_eq!(identities(&rest), identities(&all[at + 1..]), "after {}", message.cursor);
    }
    // Every line of activity appears exactly once.
    let streamed: Vec<_> = all
        .iter()
        .filter_map(|m| match &m.body {
            StreamBody::Activity(view) => Some(view.id.clone()),
            _ => None,
        })
        .collect();
    let recorded: Vec<_> =
        session.activity().await.iter().map(|l| l["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(streamed, recorded);
    let logs = all.iter().filter(|m| matches!(m.body, StreamBody::Log(_))).count();
    assert_eq!(logs, 5);
    // The session view contains the cursor of its state.
    let cursor = session.view().await["cursor"].as_str().unwrap().to_owned();
    assert!(until_caught_up(&server, &session, Some(&cursor)).await.is_empty());
}

/// A watch of a server that is killed and restarted twice sees everything once.
#[tokio::test]
async fn watch_survives_a_killed_server_without_duplicates() {
    let mut server = Server::start(1).await;
    let session = started(&server, &lines(60, 20)).await;
    let mut watch = server.client().watch(session.id.parse().unwrap(), None);
    let mut seen: Vec<StreamMessage> = Vec::new();
    let mut kills = [20, 60].into_iter().peekable();
    let over = |m: &StreamMessage| matches!(&m.body, StreamBody::Status(s) if s.status.to_string() == "Idle");
    while !seen.last().is_some_and(over) {
        match timeout(PATIENCE, watch.next()).await.expect("the stream continues").unwrap() {
            WatchEvent::Message(message) if matches!(message.body, StreamBody::CaughtUp {}) => {}
            WatchEvent::Message(message) => seen.push(*message),
            WatchEvent::Disconnected { .. } => {}
        }
        if kills.peek().is_some_and(|at| seen.len() >= *at) {
            kills.next();
            server.kill9();
            server.restart().await;
        }
    }
    assert_eq!(kills.next(), None, "the server was killed twice");
    let mut all = until_caught_up(&server, &session, None).await;
    all.truncate(seen.len());
    assert_eq!(identities(&seen), identities(&all));
    let said: Vec<_> = (0..60).map(|n| format!("line {n}")).collect();
    assert_eq!(session.said().await, said);
}

/// The stream sends status, usage, queue and logs as they change.
#[tokio::test]
async fn stream_reports_events_as_they_happen() {
    let server = Server::start(1).await;
    let session = started(&server, &short()).await;
    session.until_status("Idle").await;
    let cursor = session.view().await["cursor"].as_str().unwrap().to_owned();
    let mut stream = server.client().stream(session.id.parse().unwrap(), Some(&cursor)).await.unwrap();
    session.say("More.", "Queued").await;
    let (mut statuses, mut queue) = (Vec::new(), Vec::new());
    while statuses.last().is_none_or(|s| s != "Idle") {
        let message = timeout(PATIENCE, stream.next()).await.unwrap().unwrap().unwrap();
        match message.body {
            StreamBody::Status(status) => statuses.push(status.status.to_string()),
            StreamBody::Queue(change) => queue.push(change.event),
            _ => {}
        }
    }
    assert_eq!(statuses, ["Running", "Idle"]);
    assert_eq!(queue, ["MessageEnqueuedEvent", "MessageDispatchedEvent", "MessageDeliveredEvent"]);
}

#[tokio::test]
async fn stream_shows_requested_and_confirmed_statuses() {
    let server = Server::start(1).await;
    let session = started(&server, &endless()).await;
    session.until_said("Working.").await;
    let cursor = session.view().await["cursor"].as_str().unwrap().to_owned();
    let mut stream = server.client().stream(session.id.parse().unwrap(), Some(&cursor)).await.unwrap();
    session.post("/pause", json!({})).await.expect(202);
    let mut statuses = Vec::new();
    while statuses.last().is_none_or(|s| s != "Paused") {
        let message = timeout(PATIENCE, stream.next()).await.unwrap().unwrap().unwrap();
        if let StreamBody::Status(status) = message.body {
            statuses.push(status.status.to_string());
        }
    }
    assert_eq!(statuses, ["Pausing", "Paused"]);
}

/// A malformed or future cursor is refused before the stream begins.
#[tokio::test]
async fn a_malformed_cursor_is_refused() {
    let server = Server::start(1).await;
    let session = started(&server, &short()).await;
    session.until_status("Idle").await;
    for cursor in ["nonsense", "5", "j", "j1.", "j1.x", "j-1", "j999999", "j999999.1"] {
        // The embedded server refuses the connection, a WebSocket API the subscription.
        let error = match server.client().stream(session.id.parse().unwrap(), Some(cursor)).await {
            Err(refused) => refused,
            Ok(mut stream) => timeout(PATIENCE, stream.next()).await.unwrap().expect_err(cursor),
        };
        assert_eq!(
            (error.status(), error.code()),
            (Some(422), Some("validation-failed")),
            "{cursor}: {error}"
        );
    }
}
