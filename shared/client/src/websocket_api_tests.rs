//! The client against a fake WebSocket API of a deployment.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use pilothouse_api::stream::StreamBody;
use pilothouse_domain::AgentSessionId;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::{ApiError, Client, Credentials, SessionWatch, WatchEvent};

const TIMEOUT: Duration = Duration::from_secs(20);

fn id() -> AgentSessionId {
    "0197b1c0-0000-7000-8000-000000000001".parse().unwrap()
}

/// Messages to one connection after its subscription. Then the connection ends without a closing handshake.
type Script = Vec<String>;

/// All sessions share one address, which requires a token and a subscription. Each connection plays the next script.
#[derive(Clone, Default)]
struct Gateway {
    scripts: Arc<Mutex<Vec<Script>>>,
    subscriptions: Arc<Mutex<Vec<Value>>>,
}

impl Gateway {
    async fn serve(scripts: impl IntoIterator<Item = Script>) -> (Client, Self) {
        let gateway = Self::default();
        gateway.scripts.lock().unwrap().extend(scripts);
        let playing = gateway.clone();
        let upgrade = move |headers: HeaderMap, ws: WebSocketUpgrade| {
            let playing = playing.clone();
            async move {
                if headers.get("authorization").is_none_or(|token| token != "Bearer the-token") {
                    let refusal = json!({ "message": "Unauthorized", "connectionId": "c", "requestId": "r" });
                    return (StatusCode::UNAUTHORIZED, Body::from(refusal.to_string())).into_response();
                }
                ws.on_upgrade(move |socket| async move { playing.play(socket).await })
            }
        };
        let router = Router::new().route("/_aws/execute-api/def/live", get(upgrade));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        (client(&format!("ws://{address}/_aws/execute-api/def/live"), "the-token"), gateway)
    }

    async fn play(self, mut socket: WebSocket) {
        let script = {
            let mut scripts = self.scripts.lock().unwrap();
            if scripts.is_empty() { Vec::new() } else { scripts.remove(0) }
        };
        let Some(Ok(Message::Text(sent))) = socket.recv().await else { panic!("no subscription") };
        self.subscriptions.lock().unwrap().push(serde_json::from_str(&sent).unwrap());
        for text in script {
            if socket.send(Message::Text(text.into())).await.is_err() {
                return;
            }
        }
    }

    fn requested_cursors(&self) -> Vec<Option<String>> {
        let after = |sent: &Value| sent["after"].as_str().map(str::to_owned);
        self.subscriptions.lock().unwrap().iter().map(after).collect()
    }
}

fn client(live: &str, token: &str) -> Client {
    let client = Client::new("http://127.0.0.1:1", Credentials::Token(token.into())).unwrap();
    client.with_websocket_api(Some(live)).unwrap()
}

fn message(cursor: &str) -> String {
    json!({ "cursor": cursor, "type": "queue", "data": { "event": cursor } }).to_string()
}

fn caught_up(cursor: &str) -> String {
    json!({ "cursor": cursor, "type": "caught_up", "data": {} }).to_string()
}

fn problem(status: u16, code: &str, detail: &str) -> String {
    let data =
        json!({ "type": "about:blank", "title": code, "status": status, "code": code, "detail": detail });
    json!({ "type": "problem", "data": data }).to_string()
}

/// Collects `count` messages of a watch: their cursors, and `=` for `caught_up`.
async fn received(watch: &mut SessionWatch, count: usize) -> Vec<String> {
    let mut received = Vec::new();
    while received.len() < count {
        match timeout(TIMEOUT, watch.next()).await.unwrap().unwrap() {
            WatchEvent::Message(message) => received.push(match message.body {
                StreamBody::CaughtUp {} => "=".into(),
                _ => message.cursor,
            }),
            WatchEvent::Disconnected { .. } => {}
        }
    }
    received
}

#[tokio::test]
async fn repeated_messages_are_dropped_across_connections() {
    let (client, gateway) = Gateway::serve([
        vec![message("j0.1"), message("j1"), message("j0.1"), message("j1"), message("j2")],
        Vec::new(),
        vec![message("j1"), message("j2"), message("j3"), caught_up("j3"), message("j3"), caught_up("j3")],
        vec![caught_up("j3"), message("j5")],
    ])
    .await;
    let mut watch = client.watch(id(), None);
    assert_eq!(received(&mut watch, 7).await, ["j0.1", "j1", "j2", "j3", "=", "=", "j5"]);
    assert_eq!(watch.cursor(), Some("j5"));
    let asked = gateway.requested_cursors();
    assert_eq!(asked, [None, Some("j2".into()), Some("j2".into()), Some("j3".into())]);
    let first = gateway.subscriptions.lock().unwrap()[0].clone();
    assert_eq!(first, json!({ "action": "subscribe", "sessionId": id() }));
}

#[tokio::test]
async fn a_watch_starts_after_the_given_cursor() {
    let (client, gateway) = Gateway::serve([vec![message("j7"), message("j8"), caught_up("j8")]]).await;
    let mut watch = client.watch(id(), Some("j7".into()));
    assert_eq!(received(&mut watch, 2).await, ["j8", "="]);
    assert_eq!(gateway.requested_cursors(), [Some("j7".into())]);
}

#[tokio::test]
async fn a_refused_subscription_ends_the_watch_with_the_problem() {
    let (client, _) = Gateway::serve([vec![problem(404, "not-found", "There is no such session.")]]).await;
    let error = timeout(TIMEOUT, client.watch(id(), None).next()).await.unwrap().unwrap_err();
    assert!(error.is_not_found(), "{error:?}");
    assert_eq!(error.to_string(), "There is no such session.");
}

#[tokio::test]
async fn a_watch_survives_function_failures_and_expired_tokens() {
    let failure = json!({ "message": "Internal server error", "connectionId": "c", "requestId": "r" });
    let (client, _) = Gateway::serve([
        vec![failure.to_string()],
        vec![message("j1"), problem(401, "unauthenticated", "The token has ended.")],
        vec![message("j2")],
    ])
    .await;
    assert_eq!(received(&mut client.watch(id(), None), 2).await, ["j1", "j2"]);
}

#[tokio::test]
async fn a_rejected_token_ends_a_watch() {
    let (good, _) = Gateway::serve([]).await;
    let super::stream::StreamEndpoint::WebSocketApi(Some(url)) = &good.stream_endpoint else { panic!() };
    let error = client(url.as_str(), "another").stream(id(), None).await.unwrap_err();
    assert!(matches!(error, ApiError::TokenRefused { status: 401 }), "{error:?}");
    assert!(error.is_no_access() && !error.is_transient());
}

#[tokio::test]
async fn a_missing_websocket_address_is_reported() {
    let client = Client::new("http://127.0.0.1:1", Credentials::Token("t".into())).unwrap();
    let error = client.with_websocket_api(None).unwrap().stream(id(), None).await.unwrap_err();
    assert!(error.to_string().contains("--ws-url"), "{error}");
    let client = Client::new("http://127.0.0.1:1", Credentials::Token("t".into())).unwrap();
    let error = client.with_websocket_api(Some("https://x")).unwrap_err();
    assert!(matches!(error, ApiError::InvalidUrl { .. }), "{error:?}");
}

#[tokio::test]
async fn a_base_url_may_have_a_path() {
    let response = |headers: HeaderMap| async move {
        assert_eq!(headers["authorization"], "Bearer t");
        Response::new(Body::from(r#"{"activeCount":1,"maxCount":20,"leases":[],"waiting":[]}"#))
    };
    let router = Router::new().route("/_aws/execute-api/abc/$default/api/agents/pool", get(response));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    for base in ["/_aws/execute-api/abc/$default", "/_aws/execute-api/abc/$default/"] {
        let base = format!("http://{address}{base}");
        let asked = Client::new(&base, Credentials::Token("t".into())).unwrap().pool().await;
        assert!(!matches!(&asked, Err(e) if e.is_not_found()), "{base}: {asked:?}");
    }
}

#[tokio::test]
async fn https_and_wss_use_tls() {
    use tokio::io::AsyncReadExt as _;

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let client = Client::new(&format!("https://{address}"), Credentials::Token("t".into())).unwrap();
    let client = client.with_websocket_api(Some(&format!("wss://{address}/live"))).unwrap();
    // The listener has no certificate. A TLS handshake in the first bytes shows that nothing is sent unencrypted.
    let listening = tokio::spawn(async move {
        let mut first = Vec::new();
        for _ in 0..2 {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut bytes = [0; 3];
            socket.read_exact(&mut bytes).await.unwrap();
            first.push(bytes);
        }
        first
    });
    assert!(client.pool().await.is_err());
    assert!(client.stream(id(), None).await.is_err());
    for bytes in timeout(TIMEOUT, listening).await.unwrap().unwrap() {
        assert_eq!(bytes[..2], [0x16, 0x03], "a TLS record of a handshake");
    }
}
