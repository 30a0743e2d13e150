//! The client against small fake servers.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, RawQuery};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Router, body::Body};
use futures_util::StreamExt as _;
use pilothouse_api::stream::StreamBody;
use pilothouse_domain::AgentSessionId;
use pilothouse_domain::value::MessagePriority;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::inputs::{EnqueueMessage, PageQuery};
use super::{ApiError, Client, Credentials, ResolveError, WatchEvent};

const TIMEOUT: Duration = Duration::from_secs(20);

fn id() -> AgentSessionId {
    "0197b1c0-0000-7000-8000-000000000001".parse().unwrap()
}

async fn serve(router: Router) -> (SocketAddr, Client) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, client(address))
}

fn client(address: SocketAddr) -> Client {
    Client::new(&format!("http://{address}"), Credentials::Token("the-token".into())).unwrap()
}

fn json_response(status: StatusCode, body: &Value) -> impl IntoResponse + use<> {
    (status, [("content-type", "application/json")], Body::from(body.to_string()))
}

fn problem(status: u16, code: &str, detail: &str) -> Value {
    json!({ "type": format!("https://pilothouse.dev/problems/{code}"), "title": code, "status": status, "code": code, "detail": detail })
}

#[tokio::test]
async fn a_problem_keeps_its_code_and_all_violations() {
    let refuse = || async {
        let mut body = problem(422, "validation-failed", "The input is not valid.");
        body["violations"] = json!([{ "field": "budgetCapUsd", "message": "must be above 0" }]);
        json_response(StatusCode::UNPROCESSABLE_ENTITY, &body)
    };
    let (_, client) = serve(Router::new().fallback(refuse)).await;
    let error = client.session(id()).await.unwrap_err();
    assert_eq!(error.code(), Some("validation-failed"));
    assert_eq!(error.status(), Some(422));
    assert_eq!(error.to_string(), "The input is not valid.\n  budgetCapUsd: must be above 0");
    assert!(!error.is_transient() && !error.is_no_access());
}

#[tokio::test]
async fn unexpected_responses_are_distinguished() {
    let gone = |body: &'static str, status: StatusCode| move || async move { (status, body) };
    let router = Router::new()
        .route("/api/agents/pool", get(gone("<html>proxy</html>", StatusCode::BAD_GATEWAY)))
        .fallback(gone("{\"x\":1}", StatusCode::OK));
    let (_, client) = serve(router).await;
    let error = client.pool().await.unwrap_err();
    assert!(
        matches!(&error, ApiError::Unexpected { status: 502, body } if body.contains("proxy")),
        "{error:?}"
    );
    assert!(matches!(client.queue(id()).await.unwrap_err(), ApiError::Decode { status: 200, .. }));
}

#[tokio::test]
async fn an_unreachable_server_is_reported_with_advice() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = client(address).pool().await.unwrap_err();
    assert!(matches!(error, ApiError::Unreachable { .. }));
    assert!(error.to_string().contains("pilothouse up"), "{error}");
    assert!(error.is_no_access());
}

type Seen = Arc<Mutex<Vec<(String, String, Value)>>>;

/// A server that loses the response to the first request.
async fn lossy_server(seen: Seen) -> SocketAddr {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for attempt in 0.. {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut bytes = Vec::new();
            let (head, body) = loop {
                assert!(socket.read_buf(&mut bytes).await.unwrap() > 0, "the request ended early");
                let text = String::from_utf8_lossy(&bytes);
                if let Some((head, body)) = text.split_once("\r\n\r\n")
                    && let Ok(body) = serde_json::from_str::<Value>(body)
                {
                    break (head.to_owned(), body);
                }
            };
            let header = |name: &str| {
                let line = head
                    .lines()
                    .find_map(|l| l.split_once(": ").filter(|(n, _)| n.eq_ignore_ascii_case(name)));
                line.map(|(_, value)| value.to_owned()).unwrap_or_default()
            };
            seen.lock().unwrap().push((header("authorization"), header("idempotency-key"), body));
            if attempt > 0 {
                let response = json!({ "message": {
                    "messageId": id(), "content": "look left", "priority": "Immediate", "status": "Pending",
                    "source": "User", "createdAt": "2026-11-21T20:00:00.000Z",
                }})
                .to_string();
                let length = response.len();
                let head =
                    format!("HTTP/1.1 201 Created\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
                socket.write_all((head + &response).as_bytes()).await.unwrap();
            }
        }
    });
    address
}

#[tokio::test]
async fn a_lost_response_repeats_the_post_with_the_same_key() {
    let seen = Seen::default();
    let client = client(lossy_server(Arc::clone(&seen)).await);
    let sent =
        client.enqueue(id(), &EnqueueMessage::new("look left", MessagePriority::Immediate)).await.unwrap();
    assert_eq!(sent.message.content.as_str(), "look left");
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0].0, "Bearer the-token");
    assert!(!seen[0].1.is_empty());
    assert_eq!(
        seen[0].2,
        json!({ "content": "look left", "priority": "Immediate" }),
        "absent fields are not sent"
    );
}

#[tokio::test]
async fn gateway_failures_repeat_only_safe_requests() {
    let keys: Arc<Mutex<Vec<String>>> = Arc::default();
    let cut_off = {
        let keys = Arc::clone(&keys);
        move |headers: HeaderMap| async move {
            let key =
                headers.get("idempotency-key").map(|v| v.to_str().unwrap().to_owned()).unwrap_or_default();
            keys.lock().unwrap().push(key);
            (StatusCode::BAD_GATEWAY, "the function ended")
        }
    };
    let (_, client) = serve(Router::new().fallback(cut_off)).await;
    assert_eq!(client.close(id(), None).await.unwrap_err().status(), Some(502));
    assert_eq!(client.session(id()).await.unwrap_err().status(), Some(502));
    client.configure_pool(3).await.unwrap_err();
    let keys = keys.lock().unwrap();
    assert_eq!(keys.len(), 3 + 3 + 1);
    assert!(!keys[0].is_empty() && keys[..3].iter().all(|key| *key == keys[0]), "{keys:?}");
}

#[tokio::test]
async fn a_version_is_sent_as_an_etag() {
    let refuse = |headers: HeaderMap, _body: Bytes| async move {
        let etag = headers.get("if-match").map(|v| v.to_str().unwrap().to_owned()).unwrap_or_default();
        json_response(StatusCode::PRECONDITION_FAILED, &problem(412, "version-conflict", &etag))
    };
    let (_, client) = serve(Router::new().route("/api/agents/sessions/{id}/close", post(refuse))).await;
    assert_eq!(client.close(id(), Some(7)).await.unwrap_err().to_string(), "\"7\"");
    assert_eq!(client.close(id(), None).await.unwrap_err().to_string(), "");
}

fn summary(id: &str, name: &str) -> Value {
    json!({
        "id": id, "name": name, "status": "Idle", "hibernated": false, "hasPendingReview": false,
        "totalCostUsd": "0", "hardCapUsd": "5", "turnCount": 0, "elapsedSeconds": 0, "enabledSkillCount": 0,
        "labels": {}, "createdAt": "2026-11-21T20:00:00.000Z",
    })
}

async fn list_of_sessions() -> Client {
    let list = |RawQuery(query): RawQuery| async move {
        let first = !query.unwrap_or_default().contains("cursor=");
        let page = if first {
            json!({ "items": [
                summary("0197b1c0-1111-7000-8000-00000000aaaa", "new"),
                summary("0197b1c0-2222-7000-8000-00000000bbbb", "newer"),
            ], "nextCursor": "more" })
        } else {
            json!({ "items": [summary("01970000-3333-7000-8000-00000000cccc", "old")] })
        };
        json_response(StatusCode::OK, &page)
    };
    serve(Router::new().route("/api/agents/sessions", get(list))).await.1
}

/// The HTTP API of a deployment may have a path, as the local cloud's has.
#[tokio::test]
async fn inbox_is_read_below_the_path_of_a_deployment() {
    let list = || async { json_response(StatusCode::OK, &json!({ "items": [] })) };
    let (address, _) = serve(Router::new().route("/stage/api/decisions", get(list))).await;
    let credentials = Credentials::Token("the-token".into());
    let client = Client::new(&format!("http://{address}/stage"), credentials).unwrap();
    assert!(client.pending_decisions().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_session_is_found_by_a_unique_part_of_its_id() {
    let client = list_of_sessions().await;
    let resolve = async |given: &str| client.resolve_session(given).await.map(|id| id.to_string());
    assert_eq!(resolve("0197b1c0-1").await.unwrap(), "0197b1c0-1111-7000-8000-00000000aaaa");
    assert_eq!(resolve("0197B1C02").await.unwrap(), "0197b1c0-2222-7000-8000-00000000bbbb");
    assert_eq!(
        resolve("01970000").await.unwrap(),
        "01970000-3333-7000-8000-00000000cccc",
        "on the second page"
    );
    assert_eq!(resolve("bbbb").await.unwrap(), "0197b1c0-2222-7000-8000-00000000bbbb", "by its end");
    assert_eq!(resolve("@last").await.unwrap(), "0197b1c0-2222-7000-8000-00000000bbbb");
    let whole = "0197b1c0-9999-7000-8000-00000000dddd";
    assert_eq!(resolve(whole).await.unwrap(), whole, "a whole id is not looked up");

    let ambiguous = resolve("0197b1c0").await.unwrap_err();
    assert!(matches!(&ambiguous, ResolveError::Ambiguous { candidates, .. } if candidates.len() == 2));
    assert!(ambiguous.to_string().contains("(newer)"), "{ambiguous}");
    assert!(matches!(resolve("dead").await, Err(ResolveError::NoSession(_))));
    assert!(matches!(resolve("019").await, Err(ResolveError::NotAnId(_))));
    assert!(matches!(resolve("newest").await, Err(ResolveError::NotAnId(_))));
}

/// Sends two messages after the cursor, and drops the connection.
async fn drop_after_two(mut socket: WebSocket, query: Option<String>) {
    let after =
        query.as_deref().and_then(|q| q.strip_prefix("after=j")).map_or(0, |n| n.parse::<u32>().unwrap());
    for n in after + 1..=after + 2 {
        let text =
            json!({ "cursor": format!("j{n}"), "type": "queue", "data": { "event": format!("e{n}") } });
        if socket.send(Message::Text(text.to_string().into())).await.is_err() {
            return;
        }
    }
    // No closing handshake, as after a crash of the server.
}

#[tokio::test]
async fn a_watch_resumes_after_the_last_cursor() {
    let connections = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&connections);
    let stream = move |ws: WebSocketUpgrade, RawQuery(query): RawQuery, headers: HeaderMap| {
        assert_eq!(headers["authorization"], "Bearer the-token");
        let connection = counted.fetch_add(1, Ordering::Relaxed);
        async move {
            // The second connection is refused.
            if connection == 1 {
                return StatusCode::SERVICE_UNAVAILABLE.into_response();
            }
            ws.on_upgrade(move |socket| drop_after_two(socket, query)).into_response()
        }
    };
    let (_, client) = serve(Router::new().route("/ws/agents/sessions/{id}/stream", get(stream))).await;
    let mut watch = client.watch(id(), None);
    let (mut events, mut disconnections) = (Vec::new(), 0);
    while events.len() < 5 {
        match timeout(TIMEOUT, watch.next()).await.unwrap().unwrap() {
            WatchEvent::Message(message) => match message.body {
                StreamBody::Queue(change) => events.push(change.event),
                other => panic!("{other:?}"),
            },
            WatchEvent::Disconnected { retry_in, .. } => {
                disconnections += 1;
                assert!(retry_in <= Duration::from_secs(10));
            }
        }
    }
    assert_eq!(events, ["e1", "e2", "e3", "e4", "e5"]);
    assert_eq!(disconnections, 3, "two ended connections and one refused one");
    assert_eq!(watch.cursor(), Some("j5"));
}

#[tokio::test]
async fn a_watch_ends_at_a_final_refusal() {
    let refuse = |Path(_): Path<String>| async {
        json_response(StatusCode::NOT_FOUND, &problem(404, "not-found", "There is no such session."))
    };
    let (_, client) = serve(Router::new().route("/ws/agents/sessions/{id}/stream", get(refuse))).await;
    let error = timeout(TIMEOUT, client.watch(id(), None).next()).await.unwrap().unwrap_err();
    assert!(error.is_not_found(), "{error:?}");
    assert_eq!(error.to_string(), "There is no such session.");
}

#[tokio::test]
async fn a_silent_stream_is_pinged() {
    let pings = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&pings);
    let quiet = move |ws: WebSocketUpgrade| {
        let counted = Arc::clone(&counted);
        async move {
            ws.on_upgrade(async move |mut socket| {
                if let Some(Ok(Message::Ping(_))) = socket.next().await {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                let text = json!({ "cursor": "j1", "type": "caught_up", "data": {} }).to_string();
                let _ = socket.send(Message::Text(text.into())).await;
            })
        }
    };
    let (_, client) = serve(Router::new().route("/ws/agents/sessions/{id}/stream", get(quiet))).await;
    let mut stream = client.stream(id(), None).await.unwrap();
    tokio::time::pause();
    let message = stream.next().await.unwrap().unwrap();
    assert_eq!(message.cursor, "j1");
    assert_eq!(pings.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn sessions_are_filtered_by_status_and_page() {
    let echo = |RawQuery(query): RawQuery| async move {
        json_response(StatusCode::BAD_REQUEST, &problem(400, "echo", &query.unwrap_or_default()))
    };
    let (_, client) = serve(Router::new().fallback(echo)).await;
    let page_query = PageQuery { limit: Some(5), cursor: Some("a b".into()) };
    let status = Some(pilothouse_domain::session::AgentSessionStatus::WaitingForInput);
    let error = client.sessions(status, &page_query).await.unwrap_err();
    assert_eq!(error.to_string(), "limit=5&cursor=a+b&status=WaitingForInput");
}
