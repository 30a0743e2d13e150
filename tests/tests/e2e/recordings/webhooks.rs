//! Webhooks: their operations, and the requests that receivers get.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, StatusCode};
use pilothouse_tests::{PATIENCE, ServerProcess};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::Sha256;

use super::recorder::Recorder;

type Delivery = (HeaderMap, String);

/// Responds with 500 to the first request and with 200 to all others.
struct Receiver {
    address: String,
    deliveries: Arc<Mutex<Vec<Delivery>>>,
}

async fn receive(
    State(deliveries): State<Arc<Mutex<Vec<Delivery>>>>,
    headers: HeaderMap,
    body: String,
) -> StatusCode {
    let mut deliveries = deliveries.lock().unwrap();
    deliveries.push((headers, body));
    if deliveries.len() == 1 { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::OK }
}

impl Receiver {
    async fn start() -> Self {
        let deliveries: Arc<Mutex<Vec<Delivery>>> = Arc::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let router = Router::new().route("/hooks", post(receive)).with_state(Arc::clone(&deliveries));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, deliveries }
    }
}

/// By Standard Webhooks. `secret` is the one that the registration returned.
fn signature(secret: &str, headers: &HeaderMap, body: &str) -> String {
    let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&key).unwrap();
    let header = |name: &str| headers[name].to_str().unwrap();
    mac.update(format!("{}.{}.{body}", header("webhook-id"), header("webhook-timestamp")).as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

/// Checks the signature of a delivery and records the delivery.
fn write(on: &mut Recorder, secret: &str, (headers, body): &Delivery) {
    assert_eq!(headers["webhook-signature"], signature(secret, headers, body));
    let seconds = headers["webhook-timestamp"].to_str().unwrap();
    assert!(seconds.len() == 10 && seconds.bytes().all(|digit| digit.is_ascii_digit()), "{seconds}");
    let mut lines: Vec<_> = headers
        .iter()
        .map(|(name, value)| match name.as_str() {
            "webhook-signature" => format!("{name}: v1,<valid signature>\n"),
            "webhook-timestamp" => format!("{name}: <seconds>\n"),
            "content-length" => format!("{name}: <length>\n"),
            _ => format!("{name}: {}\n", value.to_str().unwrap()),
        })
        .collect();
    lines.sort();
    on.write(&format!("### Delivery\n\nPOST /hooks\n{}{body}\n", lines.concat()));
}

#[tokio::test]
async fn webhooks() {
    // With this factor, failed deliveries are retried within a second.
    let mut on = Recorder::on("webhooks", ServerProcess::start(20).await);
    let receiver = Receiver::start().await;
    on.replace(&receiver.address, "<receiver>");
    let path = "/api/webhooks";
    let (owner, key) = (on.owner(), [("idempotency-key", "webhook")]);
    let body = json!({
        "url": format!("http://{}/hooks", receiver.address), "description": "Mine",
        "events": ["AgentSkillCreatedEvent", "AgentSkillUpdatedEvent"],
    });
    let registered = on.send(&owner, Method::POST, path, &key, Some(body.clone())).await.expect(201).body;
    on.send(&owner, Method::POST, path, &key, Some(body)).await.expect(201);
    let wrong = json!({ "url": "http://10.0.0.1/", "events": ["Nonsense"], "colour": "red" });
    on.post(path, wrong).await.expect(422);
    let id = registered["webhook"]["id"].as_str().unwrap().to_owned();
    let secret = registered["secret"].as_str().unwrap().to_owned();
    on.get(path).await.expect(200);

    let deliveries = format!("{path}/{id}/deliveries");
    let api = owner.api.clone();
    let handle = api.session(&id);
    let delivered = async |count: usize| {
        let look = async || {
            let all: Vec<Value> = api.all(&deliveries).await;
            (all.iter().filter(|one| one["state"] == "delivered").count() == count).then_some(())
        };
        handle.until_within(PATIENCE, "the delivery", look).await;
    };
    let skill = json!({ "name": "Formatting", "description": "How we format" });
    let skill = api.post("/api/agents/skills", skill).await.expect(201).body["id"].clone();
    on.name(skill.as_str().unwrap(), "skill");
    delivered(1).await;
    let skill_path = format!("/api/agents/skills/{}", skill.as_str().unwrap());
    let change = Some(br#"{"description":"Otherwise"}"#.to_vec());
    api.send(Method::PUT, &skill_path, &[], change).await.expect(200);
    delivered(2).await;
    let attempts = receiver.deliveries.lock().unwrap().clone();
    assert_eq!(attempts.len(), 3, "one was tried again");
    for delivery in &attempts {
        write(&mut on, &secret, delivery);
    }
    on.get(&deliveries).await.expect(200);
    let page = on.get(&format!("{deliveries}?limit=1")).await.expect(200).body;
    let cursor = page["nextCursor"].as_str().unwrap();
    on.get(&format!("{deliveries}?limit=1&cursor={cursor}")).await.expect(200);
    on.post(&format!("{path}/{id}/enable"), json!({})).await.expect(200);
    on.delete(&format!("{path}/{id}")).await.expect(204);
    on.delete(&format!("{path}/{id}")).await.expect(404);
    on.finish();
}
