//! Frames of the live streams, as they were sent.

use futures_util::StreamExt as _;
use pilothouse_tests::PATIENCE;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::recorder::Recorder;
use super::records::everything;
use crate::scripts::{say, with_output};

type Stream = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Records the request and the response.
async fn connect(on: &mut Recorder, operation: &str, path: &str) -> Stream {
    let url = format!("{}{path}", on.server.url().replacen("http", "ws", 1));
    let mut request = url.into_client_request().unwrap();
    let token = on.server.token(pilothouse_local_keys::DEFAULT_OWNER);
    request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    let (stream, response) = connect_async(request).await.unwrap();
    let mut text = format!("## {operation} {}\n\nGET {path} by owner\n\n", response.status().as_u16());
    let mut headers: Vec<_> = response
        .headers()
        .iter()
        .filter(|(name, _)| *name != "sec-websocket-accept" && *name != "date")
        .map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap()))
        .collect();
    headers.sort();
    text.extend(headers);
    on.write(&text);
    stream
}

/// Up to and including the first frame for which `last` returns true.
async fn frames(on: &mut Recorder, stream: &mut Stream, last: impl Fn(&Value) -> bool) -> Value {
    let mut text = String::new();
    loop {
        let frame = timeout(PATIENCE, stream.next()).await.unwrap().unwrap().unwrap();
        if !frame.is_text() {
            continue;
        }
        let frame = frame.into_text().unwrap();
        text.push_str(&frame);
        text.push('\n');
        let value: Value = serde_json::from_str(&frame).unwrap();
        if last(&value) {
            on.write(&text);
            return value;
        }
    }
}

fn is_caught_up(frame: &Value) -> bool {
    frame["type"] == "caught_up"
}

#[tokio::test]
async fn stream_of_a_session() {
    let mut on = Recorder::start("stream").await;
    let mut plays = everything();
    plays["onMessage"] = json!([say("You said: {{message}}")]);
    let session = on.started("session", &plays).await;
    session.until_status("Idle").await;
    let path = format!("/ws/agents/sessions/{}/stream", session.id);
    let mut all = connect(&mut on, "stream-connect", &path).await;
    let last = frames(&mut on, &mut all, is_caught_up).await;
    let cursor = last["cursor"].as_str().unwrap_or_default().to_owned();

    // The open stream receives later changes.
    session.say("More.", "Queued").await;
    let is_idle = |frame: &Value| frame["type"] == "status" && frame["data"]["status"] == "Idle";
    frames(&mut on, &mut all, is_idle).await;
    let view = session.until("its turn", |view| view["metrics"]["turnCount"] == 2).await;
    assert_eq!(view["status"], "Idle");
    session.post("/pause", json!({})).await;
    session.post("/close", json!({})).await.expect(200);
    let is_over = |frame: &Value| frame["type"] == "status" && frame["data"]["status"] == "Completed";
    frames(&mut on, &mut all, is_over).await;

    // A client that reconnects with its cursor receives the frames after it.
    let mut rest = connect(&mut on, "stream-connect", &format!("{path}?after={cursor}")).await;
    frames(&mut on, &mut rest, is_over).await;
    let upgrade = [
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let owner = on.owner();
    on.send(&owner, Method::GET, &format!("{path}?after=nonsense"), &upgrade, None).await.expect(422);
    on.send(&owner, Method::GET, &path, &[], None).await.expect(422);
    on.finish();
}

#[tokio::test]
async fn stream_of_notifications() {
    let mut on = Recorder::start("notification-stream").await;
    let path = "/ws/notifications";
    let mut live = connect(&mut on, "notifications-stream", path).await;
    frames(&mut on, &mut live, is_caught_up).await;
    let session = on.started("session", &with_output()).await;
    let is_notification = |frame: &Value| frame["type"] == "notification";
    let notification = frames(&mut on, &mut live, is_notification).await;
    session.until("output", |view| view["hasPendingReview"] == true).await;
    let before = notification["cursor"].as_str().unwrap().parse::<u64>().unwrap() - 1;
    let mut late = connect(&mut on, "notifications-stream", &format!("{path}?after={before}")).await;
    frames(&mut on, &mut late, is_notification).await;
    let owner = on.owner();
    on.send(&owner, Method::GET, path, &[], None).await.expect(422);
    on.finish();
}

#[tokio::test]
async fn stream_of_the_inbox() {
    let mut on = Recorder::start("inbox-stream").await;
    let path = "/ws/decisions";
    let mut live = connect(&mut on, "decisions-stream", path).await;
    frames(&mut on, &mut live, is_caught_up).await;
    on.started("session", &with_output()).await;
    frames(&mut on, &mut live, |frame| frame["type"] == "decision").await;
    let owner = on.owner();
    on.send(&owner, Method::GET, path, &[], None).await.expect(422);
    on.finish();
}

#[tokio::test]
async fn stream_of_the_list_of_sessions() {
    let mut on = Recorder::start("sessions-stream").await;
    let path = "/ws/sessions";
    let mut live = connect(&mut on, "sessions-stream", path).await;
    frames(&mut on, &mut live, is_caught_up).await;
    let owner = on.owner();
    on.send(&owner, Method::GET, path, &[], None).await.expect(422);
    on.finish();
}

#[tokio::test]
async fn stream_of_a_project() {
    let mut on = Recorder::start("project-stream").await;
    let shop = json!({ "name": "Shop", "workstreams": [{ "id": "api", "name": "API" }] });
    let project = on.post("/api/projects", shop).await.expect(201).body;
    let id = project["id"].as_str().unwrap();
    let state = format!("/api/projects/{id}/state");
    // The cursor encodes an id, so it differs in each run.
    let now = on.owner().api.send(Method::GET, &state, &[], None).await.expect(200).body;
    on.replace(now["cursor"].as_str().unwrap(), "<cursor>");
    on.get(&state).await.expect(200);
    let path = format!("/ws/projects/{id}");
    let mut live = connect(&mut on, "projects-stream", &path).await;
    frames(&mut on, &mut live, |frame| frame["type"] == "state_sync").await;
    let owner = on.owner();
    on.send(&owner, Method::GET, &path, &[], None).await.expect(422);
    let stranger = on.stranger();
    on.send(&stranger, Method::GET, &state, &[], None).await.expect(404);
    on.finish();
}
