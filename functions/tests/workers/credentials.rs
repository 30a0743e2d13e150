//! Credentials in the cloud: which are issued, and to whom.

use std::time::Duration;

use pilothouse_app::queues;
use serde_json::{Value, json};

use crate::fixture::{WorkersFixture, key};

#[tokio::test]
async fn worker_can_get_credentials_for_its_own_queue() {
    let fixture = WorkersFixture::in_the_cloud().await;
    let plain = fixture.heartbeat("ada", "w", 1, json!({})).await;
    assert_eq!(plain.body, json!({ "heartbeatSeconds": 15.0 }));
    let asked = fixture.heartbeat("ada", "w", 1, json!({ "needsAccess": true })).await;
    assert_eq!(asked.body["access"]["kind"], "sqs");
    assert_eq!(asked.body["access"]["queueUrl"], queues::worker(&key("ada", "w")).as_str());
    let other = fixture.heartbeat("bob", "w", 1, json!({ "needsAccess": true })).await;
    assert_ne!(other.body["access"]["queueUrl"], asked.body["access"]["queueUrl"]);
    let orders = fixture.send(Ok("ada"), "POST", "/api/workers/w/orders", json!({})).await;
    assert_eq!(orders.status, 404, "orders are on the queue");
}

#[tokio::test]
async fn run_token_grants_credentials_and_launch_while_current() {
    let fixture = WorkersFixture::in_the_cloud().await;
    let request = fixture.launched("ada", &[]).await;
    let token = fixture.secret.gateway_token(request.session_id, request.run_id);
    let post = async |path: &str, token: &str| {
        fixture.send(Err(token), "POST", &format!("/internal/gateway/{path}"), json!({})).await
    };
    let credentials = post("credentials", token.as_str()).await;
    assert_eq!(credentials.status, 200, "{}", credentials.body);
    assert_eq!(credentials.body["commandsQueueUrl"], json!(request.run_id));
    assert_eq!(credentials.body["blobPrefix"], format!("sessions/{}/", request.session_id));
    let launch = post("launch", token.as_str()).await;
    assert_eq!(launch.body["runId"], json!(request.run_id));
    assert_eq!(launch.body["broker"]["kind"], "sqs");
    assert_eq!(launch.body["envelopeKey"], json!(fixture.secret.envelope_key(request.run_id)));

    let other = fixture.session("ada").await;
    let mixed = fixture.secret.gateway_token(request.session_id, other.run_id);
    for path in ["credentials", "launch"] {
        assert_eq!(post(path, mixed.as_str()).await.status, 410, "{path}: not the session's run");
        let forged = format!("{}.{}.{}", request.session_id, request.run_id, "0".repeat(64));
        assert_eq!(post(path, &forged).await.status, 401, "{path}");
    }
}

#[tokio::test]
async fn missing_vendor_yields_no_credentials() {
    let fixture = WorkersFixture::new().await;
    let request = fixture.launched("ada", &[]).await;
    let token = fixture.secret.gateway_token(request.session_id, request.run_id);
    let reply = fixture.send(Err(token.as_str()), "POST", "/internal/gateway/credentials", json!({})).await;
    assert_eq!(reply.status, 404);
    let asked = fixture.heartbeat("ada", "w", 1, json!({ "needsAccess": true })).await;
    assert_eq!(asked.body["access"], json!({ "kind": "http" }));
    let orders = fixture.send(Ok("ada"), "POST", "/api/workers/w/orders", json!({ "waitSeconds": 1 })).await;
    assert_eq!(orders.body["orders"].as_array().unwrap().len(), 1, "{}", orders.body);
    let receipt = &orders.body["orders"][0]["receipt"];
    let done = json!({ "done": [receipt] });
    assert_eq!(
        fixture.send(Ok("ada"), "POST", "/api/workers/w/orders", done).await.body["orders"],
        json!([])
    );
}

#[tokio::test]
async fn released_order_is_delivered_again_after_a_delay() {
    let fixture = WorkersFixture::new().await;
    fixture.launched("ada", &[]).await;
    fixture.worker("ada", "w", 1).await;
    let receive = async |body: Value| {
        let reply = fixture.send(Ok("ada"), "POST", "/api/workers/w/orders", body).await;
        reply.body["orders"].as_array().unwrap().clone()
    };
    let first = receive(json!({})).await;
    assert_eq!(first.len(), 1);
    assert_eq!(receive(json!({ "again": [first[0]["receipt"]] })).await, [] as [Value; 0], "not at once");
    fixture.pass(Duration::from_secs(1));
    let again = receive(json!({})).await;
    assert_eq!((again.len(), &again[0]["body"]), (1, &first[0]["body"]));
}

#[tokio::test]
async fn dead_run_can_be_drained_for_an_hour() {
    let fixture = WorkersFixture::in_the_cloud().await;
    let request = fixture.launched("ada", &[]).await;
    let token = fixture.secret.gateway_token(request.session_id, request.run_id);
    let post = async |path: &str| {
        fixture.send(Err(token.as_str()), "POST", &format!("/internal/gateway/{path}"), json!({})).await
    };
    let leftovers = "credentials?leftovers=true";
    assert_eq!(post(leftovers).await.body["accessKeyId"], "leftovers", "no more than requested");
    fixture.end(&request).await;
    assert_eq!(post("credentials").await.status, 410);
    let late = post(leftovers).await;
    assert_eq!((late.status, &late.body["accessKeyId"]), (200, &json!("leftovers")));
    fixture.pass(Duration::from_mins(59));
    assert_eq!(post(leftovers).await.status, 200);
    fixture.pass(Duration::from_mins(2));
    assert_eq!(post(leftovers).await.status, 410);
}
