//! Webhooks to a real receiver (decision 37): signatures, retries, and abandonment.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, StatusCode};
use pilothouse_tests::PATIENCE;
use reqwest::Method;
use serde_json::{Value, json};
use sha2::Sha256;

use crate::scripts::with_output;
use crate::server::{Server, started};

#[derive(Clone)]
struct Got {
    id: String,
    timestamp: String,
    signature: String,
    body: String,
}

/// Plays scripted responses on loopback, each once, and repeats the last one.
struct Receiver {
    url: String,
    got: Arc<Mutex<Vec<Got>>>,
}

#[derive(Clone)]
struct EndpointState {
    got: Arc<Mutex<Vec<Got>>>,
    statuses: Arc<Vec<u16>>,
}

async fn receive(
    State(state): State<EndpointState>,
    headers: HeaderMap,
    body: String,
) -> (StatusCode, [(&'static str, &'static str); 1]) {
    let header = |name: &str| headers.get(name).map(|v| v.to_str().unwrap().to_owned()).unwrap_or_default();
    let mut got = state.got.lock().unwrap();
    got.push(Got {
        id: header("webhook-id"),
        timestamp: header("webhook-timestamp"),
        signature: header("webhook-signature"),
        body,
    });
    let status = state.statuses.get(got.len() - 1).or(state.statuses.last()).copied().unwrap();
    (StatusCode::from_u16(status).unwrap(), [("location", "/elsewhere")])
}

impl Receiver {
    async fn responding(statuses: &[u16]) -> Self {
        let got: Arc<Mutex<Vec<Got>>> = Arc::default();
        let state = EndpointState { got: Arc::clone(&got), statuses: Arc::new(statuses.to_vec()) };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hooks", listener.local_addr().unwrap());
        let router = Router::new().route("/hooks", post(receive)).with_state(state);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, got }
    }

    fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }
}

/// As a receiver of Standard Webhooks does, with only the secret.
fn is_signed(got: &Got, secret: &str) -> bool {
    let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&key).unwrap();
    mac.update(format!("{}.{}.{}", got.id, got.timestamp, got.body).as_bytes());
    got.signature == format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

/// A failed delivery is retried under the same id with a new signature; the attempts are listed.
#[tokio::test]
async fn delivery_is_signed_and_retried() {
    let mut server = Server::start(20).await;
    let receiver = Receiver::responding(&[500, 302, 200]).await;
    let body =
        json!({ "url": receiver.url, "events": ["AgentSessionOutputReadyEvent"], "description": "Mine" });
    let register = async |server: &Server| {
        let bytes = Some(body.to_string().into_bytes());
        server
            .api()
            .send(Method::POST, "/api/webhooks", &[("Idempotency-Key", "k")], bytes)
            .await
            .expect(201)
            .body
    };
    let registered = register(&server).await;
    assert_eq!(register(&server).await, registered, "the secret is derived again");
    let (id, secret) =
        (registered["webhook"]["id"].as_str().unwrap(), registered["secret"].as_str().unwrap());
    let listed = server.api().get("/api/webhooks").await.expect(200);
    assert_eq!(listed.body["items"], json!([registered["webhook"]]));
    assert!(!listed.text.contains("whsec_"), "the secret is shown only once");

    let path = format!("/api/webhooks/{id}/deliveries");
    let session = started(&server, &with_output()).await;
    session
        .until_within(PATIENCE, "the first attempt", async || {
            (!server.api().all(&path).await.is_empty()).then_some(())
        })
        .await;
    server.restart().await;
    let delivery = session
        .until_within(PATIENCE, "the delivery", async || {
            let all = server.api().all(&path).await;
            all.into_iter().find(|one| one["state"] == "delivered")
        })
        .await;
    let statuses: Vec<_> =
        delivery["attempts"].as_array().unwrap().iter().filter_map(|a| a["status"].as_u64()).collect();
    // An attempt is repeated if the server was killed before it was recorded.
    assert_eq!((statuses.first(), statuses.last()), (Some(&500), Some(&200)), "{delivery}");
    assert!(
        statuses.len() >= 2 && statuses.len() <= receiver.got().len(),
        "redirects are not followed: {delivery}"
    );
    let got = receiver.got();
    assert!(got.len() >= 3);
    assert!(got.iter().all(|got| is_signed(got, secret)));
    let ids: BTreeSet<_> = got.iter().map(|got| got.id.as_str()).collect();
    assert_eq!(ids, BTreeSet::from([delivery["id"].as_str().unwrap()]));
    let event: Value = serde_json::from_str(&got[0].body).unwrap();
    assert_eq!(event["type"], "AgentSessionOutputReadyEvent");
    assert_eq!(event["data"]["sessionId"], session.id.as_str());
    assert_eq!(server.api().all(&path).await.len(), 1, "the webhook receives only the events of its filter");
    let stranger = server.api_of("someone-else");
    assert_eq!(stranger.get("/api/webhooks").await.expect(200).body["items"], json!([]));
    stranger.get(&path).await.refused(404, "not-found");
    stranger.delete(&format!("/api/webhooks/{id}")).await.refused(404, "not-found");
    server.api().delete(&format!("/api/webhooks/{id}")).await.expect(204);
    server.api().delete(&format!("/api/webhooks/{id}")).await.refused(404, "not-found");
}

/// An endpoint that always fails is abandoned after eight attempts. Its owner is notified and can enable it again.
#[tokio::test]
async fn endpoint_that_always_fails_is_abandoned() {
    // Eight hours pass in six seconds.
    let server = Server::start(5000).await;
    let receiver = Receiver::responding(&[503]).await;
    let body = json!({ "url": receiver.url, "events": ["AgentSkillCreatedEvent"] });
    let id = server.api().post("/api/webhooks", body).await.expect(201).body["webhook"]["id"].clone();
    let id = id.as_str().unwrap();
    let skill = json!({ "name": "First", "description": "Nobody hears of it." });
    server.api().post("/api/agents/skills", skill).await.expect(201);
    // Only for waiting; no such session exists.
    let session = server.api().session("01900000-0000-7000-8000-00000000ffff");
    let webhook = session
        .until_within(PATIENCE, "the end of patience", async || {
            let all = server.api().get("/api/webhooks").await.expect(200).body;
            all["items"].as_array().unwrap().iter().find(|one| one.get("disabled").is_some()).cloned()
        })
        .await;
    assert_eq!(receiver.got().len(), 8);
    assert_eq!(webhook["disabled"]["reason"], "AgentSkillCreatedEvent could not be delivered in 8 attempts");
    let deliveries = server.api().all(&format!("/api/webhooks/{id}/deliveries")).await;
    assert_eq!((deliveries.len(), &deliveries[0]["state"]), (1, &json!("failed")));
    let notifications = server.api().all("/api/notifications").await;
    let notifications: Vec<_> =
        notifications.iter().filter(|one| one["kind"] == "webhook-disabled").collect();
    assert_eq!(notifications.len(), 1, "{notifications:?}");
    assert!(notifications[0]["text"].as_str().unwrap().contains(&receiver.url));
    let enabled = server.api().post(&format!("/api/webhooks/{id}/enable"), json!({})).await.expect(200).body;
    assert_eq!(enabled.get("disabled"), None);
}

#[tokio::test]
async fn webhooks_reach_only_allowed_addresses() {
    let server = Server::start(1).await;
    for url in [
        "http://example.com/hooks",
        "ftp://example.com",
        "https://169.254.169.254/latest",
        "https://10.0.0.1/",
        "https://[fd00::1]/",
        "https://user@example.com/",
        "https://2130706433/",
        "http://192.168.1.1/",
        "nonsense",
    ] {
        let refused = server.api().post("/api/webhooks", json!({ "url": url })).await;
        assert_eq!(refused.refused(422, "validation-failed").violated(), ["url"], "{url}");
    }
    let unknown = json!({ "url": "https://example.com", "events": ["Nonsense"], "colour": "red" });
    let refused = server.api().post("/api/webhooks", unknown).await.refused(422, "validation-failed");
    assert_eq!(refused.violated(), ["colour", "events"]);
    assert_eq!(server.api().get("/api/webhooks").await.expect(200).body["items"], json!([]));
    for _ in 0..20 {
        server.api().post("/api/webhooks", json!({ "url": "https://example.com/" })).await.expect(201);
    }
    let one_more = server.api().post("/api/webhooks", json!({ "url": "https://example.com/" })).await;
    one_more.refused(422, "validation-failed");
}
