//! Notifications to browsers (decision 98), with a push service on loopback in place of a vendor's.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, StatusCode};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use p256::SecretKey;
use p256::elliptic_curve::rand_core::OsRng;
use p256::elliptic_curve::sec1::ToEncodedPoint as _;
use pilothouse_tests::PATIENCE;
use serde_json::{Value, json};

use crate::scripts::{script, turn, with_output};
use crate::server::{Server, started};

#[derive(Clone)]
struct Delivery {
    /// The last part of the address.
    device: String,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Delivery {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

type Deliveries = Arc<Mutex<Vec<Delivery>>>;

/// Responds to each request with the next of some statuses, and repeats the last one.
struct PushService {
    address: String,
    deliveries: Deliveries,
}

async fn receive(
    State((deliveries, statuses)): State<(Deliveries, Arc<Vec<u16>>)>,
    Path(device): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let mut deliveries = deliveries.lock().unwrap();
    deliveries.push(Delivery { device, headers, body: body.to_vec() });
    let status = statuses.get(deliveries.len() - 1).or(statuses.last()).copied().unwrap();
    StatusCode::from_u16(status).unwrap()
}

impl PushService {
    async fn responding(statuses: &[u16]) -> Self {
        let deliveries = Deliveries::default();
        let state = (Arc::clone(&deliveries), Arc::new(statuses.to_vec()));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().route("/devices/{device}", post(receive)).with_state(state);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, deliveries }
    }

    fn deliveries(&self) -> Vec<Delivery> {
        self.deliveries.lock().unwrap().clone()
    }
}

/// The keys of a browser.
struct Browser {
    secret: SecretKey,
    auth: [u8; 16],
}

impl Browser {
    fn new() -> Self {
        Self { secret: SecretKey::random(&mut OsRng), auth: *uuid::Uuid::new_v4().as_bytes() }
    }

    fn keys(&self) -> Value {
        let point = self.secret.public_key().to_encoded_point(false);
        json!({ "p256dh": URL_SAFE_NO_PAD.encode(point), "auth": URL_SAFE_NO_PAD.encode(self.auth) })
    }

    fn subscription(&self, service: &PushService, device: &str) -> Value {
        let endpoint = format!("{}/devices/{device}", service.address);
        json!({ "endpoint": endpoint, "keys": self.keys(), "device": device })
    }

    fn read(&self, delivery: &Delivery) -> Value {
        let auth = web_push_native::Auth::clone_from_slice(&self.auth);
        let text = web_push_native::decrypt(delivery.body.clone(), &self.secret, &auth).unwrap();
        serde_json::from_slice(&text).unwrap()
    }
}

const SUBSCRIPTIONS: &str = "/api/web-push/subscriptions";

async fn until_delivered(server: &Server, service: &PushService, count: usize) -> Vec<Delivery> {
    // Only for waiting; no such session exists.
    let session = server.api().session("01900000-0000-7000-8000-00000000ffff");
    session
        .until_within(PATIENCE, "the deliveries", async || {
            let all = service.deliveries();
            (all.len() >= count).then_some(all)
        })
        .await
}

/// As a push service checks it: the token names the service and is signed with the key that the server publishes.
async fn is_signed(server: &Server, service: &PushService, delivery: &Delivery) -> bool {
    let published = server.api().get("/api/web-push/key").await.expect(200).body;
    let public_key = published["publicKey"].as_str().unwrap();
    let point = URL_SAFE_NO_PAD.decode(public_key).unwrap();
    let (x, y) = (URL_SAFE_NO_PAD.encode(&point[1..33]), URL_SAFE_NO_PAD.encode(&point[33..]));
    let authorization = delivery.header("authorization");
    let (token, key) = authorization.strip_prefix("vapid t=").unwrap().split_once(", k=").unwrap();
    let mut validation = Validation::new(Algorithm::ES256);
    validation.set_audience(&[&service.address]);
    let decoding = DecodingKey::from_ec_components(&x, &y).unwrap();
    key == public_key && jsonwebtoken::decode::<Value>(token, &decoding, &validation).is_ok()
}

#[tokio::test]
async fn browser_is_notified_of_a_question_and_can_read_it() {
    let mut server = Server::start(20).await;
    let service = PushService::responding(&[503, 201]).await;
    let phone = Browser::new();
    let subscribed =
        server.api().post(SUBSCRIPTIONS, phone.subscription(&service, "phone")).await.expect(201);
    assert_eq!(subscribed.body["service"], "127.0.0.1");
    let listed = server.api().get(SUBSCRIPTIONS).await.expect(200);
    assert_eq!(listed.body["items"], json!([subscribed.body]));
    assert!(!listed.text.contains("p256dh") && !listed.text.contains("/devices/"), "{}", listed.text);

    let question =
        turn(&[json!({ "question": { "id": "q1", "questions": [{ "question": "Which colour?" }] } })]);
    let session = started(&server, &script(&[question])).await;
    until_delivered(&server, &service, 1).await;
    server.restart().await;
    let deliveries = until_delivered(&server, &service, 2).await;
    for delivery in &deliveries {
        assert!(is_signed(&server, &service, delivery).await, "{:?}", delivery.headers);
        let notification = phone.read(delivery);
        assert_eq!(
            (&notification["kind"], &notification["text"]),
            (&json!("waiting-for-input"), &json!("Which colour?"))
        );
        assert_eq!(notification["sessionId"], session.id.as_str());
        assert_eq!(delivery.header("urgency"), "high");
        assert_eq!(delivery.header("topic"), session.id.replace('-', ""));
        assert_eq!(delivery.header("content-encoding"), "aes128gcm");
    }
}

#[tokio::test]
async fn browser_receives_the_kinds_of_notifications_that_its_owner_chose() {
    let server = Server::start(20).await;
    let service = PushService::responding(&[201]).await;
    let (all, failures) = (Browser::new(), Browser::new());
    server.api().post(SUBSCRIPTIONS, all.subscription(&service, "all")).await.expect(201);
    let mut body = failures.subscription(&service, "failures");
    body["kinds"] = json!(["session-failed"]);
    let first = server.api().post(SUBSCRIPTIONS, body.clone()).await.expect(201).body;
    body["kinds"] = json!(["session-failed", "session-completed"]);
    let second = server.api().post(SUBSCRIPTIONS, body).await.expect(200).body;
    assert_eq!((&first["id"], second["kinds"].as_array().unwrap().len()), (&second["id"], 2));

    let session = started(&server, &with_output()).await;
    let view = session.until("output", |v| v["hasPendingReview"] == true).await;
    session.post("/approve", json!({ "outputId": view["output"]["outputId"] })).await.expect(200);
    let deliveries = until_delivered(&server, &service, 3).await;
    let kinds_of = |device: &str, browser: &Browser| -> Vec<Value> {
        let own = deliveries.iter().filter(|delivery| delivery.device == device);
        own.map(|delivery| browser.read(delivery)["kind"].clone()).collect()
    };
    assert_eq!(kinds_of("all", &all), ["output-ready", "session-completed"]);
    assert_eq!(kinds_of("failures", &failures), ["session-completed"]);
}

/// A browser cancels its subscription without telling the server. Its push service then responds with 410.
#[tokio::test]
async fn cancelled_subscription_is_removed() {
    let server = Server::start(20).await;
    let service = PushService::responding(&[410]).await;
    let phone = Browser::new();
    server.api().post(SUBSCRIPTIONS, phone.subscription(&service, "phone")).await.expect(201);
    let session = started(&server, &with_output()).await;
    let listed = session
        .until_within(PATIENCE, "the removal", async || {
            let listed = server.api().get(SUBSCRIPTIONS).await.expect(200).body;
            listed["items"].as_array().unwrap().is_empty().then_some(listed)
        })
        .await;
    assert_eq!(listed, json!({ "items": [] }));
    assert_eq!(service.deliveries().len(), 1);
}

#[tokio::test]
async fn wrong_subscriptions_and_those_of_others_are_refused() {
    let server = Server::start(1).await;
    let phone = Browser::new();
    // 65 bytes of the right form, but no point of the curve.
    let nowhere = URL_SAFE_NO_PAD.encode([4; 65]);
    let off_curve = json!({
        "endpoint": "https://10.0.0.1/", "device": "Phone",
        "keys": { "p256dh": nowhere, "auth": phone.keys()["auth"] },
    });
    let refused = server.api().post(SUBSCRIPTIONS, off_curve).await.refused(422, "validation-failed");
    assert_eq!(refused.violated(), ["endpoint", "keys.p256dh"]);
    let wrong = json!({
        "endpoint": "https://10.0.0.1/", "device": "", "keys": { "p256dh": "short", "auth": "short" },
        "kinds": ["everything"], "colour": "red",
    });
    let refused = server.api().post(SUBSCRIPTIONS, wrong).await.refused(422, "validation-failed");
    assert_eq!(refused.violated(), ["colour", "device", "keys.auth", "keys.p256dh", "kinds[0]"]);
    assert_eq!(server.api().get(SUBSCRIPTIONS).await.expect(200).body["items"], json!([]));

    let mine = json!({ "endpoint": "https://push.example/phone", "device": "Phone", "keys": phone.keys() });
    let mine = server.api().post(SUBSCRIPTIONS, mine).await.expect(201).body;
    let path = format!("{SUBSCRIPTIONS}/{}", mine["id"].as_str().unwrap());
    let stranger = server.api_of("someone-else");
    assert_eq!(stranger.get(SUBSCRIPTIONS).await.expect(200).body["items"], json!([]));
    stranger.delete(&path).await.refused(404, "not-found");
    server.api().delete(&path).await.expect(204);
    server.api().delete(&path).await.refused(404, "not-found");
}
