//! What is handed out in the cloud, and to whom.

use std::time::Duration;

use pilothouse_functions::queues;
use serde_json::json;

use crate::stage::{Stage, key};

#[tokio::test]
async fn a_worker_that_asks_for_it_gets_the_way_to_its_own_queue() {
    let stage = Stage::in_the_cloud().await;
    let plain = stage.beat("ada", "w", 1, json!({})).await;
    assert_eq!(plain.body, json!({ "heartbeatSeconds": 15.0 }));
    let asked = stage.beat("ada", "w", 1, json!({ "needsAccess": true })).await;
    assert_eq!(asked.body["access"]["kind"], "sqs");
    assert_eq!(asked.body["access"]["queueUrl"], queues::worker(&key("ada", "w")).as_str());
    let other = stage.beat("bob", "w", 1, json!({ "needsAccess": true })).await;
    assert_ne!(other.body["access"]["queueUrl"], asked.body["access"]["queueUrl"]);
    let orders = stage.send(Ok("ada"), "POST", "/api/workers/w/orders", json!({})).await;
    assert_eq!(orders.status, 404, "orders are on the queue");
}

#[tokio::test]
async fn a_run_gets_credentials_and_its_launch_for_its_token_while_it_is_the_current_one() {
    let stage = Stage::in_the_cloud().await;
    let request = stage.launched("ada", &[]).await;
    let token = stage.secret.gateway_token(request.session_id, request.run_id);
    let post = async |path: &str, token: &str| {
        stage.send(Err(token), "POST", &format!("/internal/gateway/{path}"), json!({})).await
    };
    let credentials = post("credentials", token.as_str()).await;
    assert_eq!(credentials.status, 200, "{}", credentials.body);
    assert_eq!(credentials.body["commandsQueueUrl"], json!(request.run_id));
    assert_eq!(credentials.body["blobPrefix"], format!("sessions/{}/", request.session_id));
    let launch = post("launch", token.as_str()).await;
    assert_eq!(launch.body["runId"], json!(request.run_id));
    assert_eq!(launch.body["broker"]["kind"], "sqs");
    assert_eq!(launch.body["envelopeKey"], json!(stage.secret.envelope_key(request.run_id)));

    let other = stage.session("ada").await;
    let mixed = stage.secret.gateway_token(request.session_id, other.run_id);
    for path in ["credentials", "launch"] {
        assert_eq!(post(path, mixed.as_str()).await.status, 410, "{path}: not the session's run");
        let forged = format!("{}.{}.{}", request.session_id, request.run_id, "0".repeat(64));
        assert_eq!(post(path, &forged).await.status, 401, "{path}");
    }
}

#[tokio::test]
async fn without_a_vendor_there_are_no_credentials() {
    let stage = Stage::new().await;
    let request = stage.launched("ada", &[]).await;
    let token = stage.secret.gateway_token(request.session_id, request.run_id);
    let reply = stage.send(Err(token.as_str()), "POST", "/internal/gateway/credentials", json!({})).await;
    assert_eq!(reply.status, 404);
    let asked = stage.beat("ada", "w", 1, json!({ "needsAccess": true })).await;
    assert_eq!(asked.body["access"], json!({ "kind": "http" }));
    let orders = stage.send(Ok("ada"), "POST", "/api/workers/w/orders", json!({ "waitSeconds": 1 })).await;
    assert_eq!(orders.body["orders"].as_array().unwrap().len(), 1, "{}", orders.body);
    let receipt = &orders.body["orders"][0]["receipt"];
    let done = json!({ "done": [receipt] });
    assert_eq!(stage.send(Ok("ada"), "POST", "/api/workers/w/orders", done).await.body["orders"], json!([]));
}

#[tokio::test]
async fn what_a_dead_sidecar_left_is_taken_for_an_hour_after_its_run_and_nothing_else_is_open() {
    let stage = Stage::in_the_cloud().await;
    let request = stage.launched("ada", &[]).await;
    let token = stage.secret.gateway_token(request.session_id, request.run_id);
    let post = async |path: &str| {
        stage.send(Err(token.as_str()), "POST", &format!("/internal/gateway/{path}"), json!({})).await
    };
    let leftovers = "credentials?leftovers=true";
    assert_eq!(post(leftovers).await.body["accessKeyId"], "leftovers", "never more than that");
    stage.end(&request).await;
    assert_eq!(post("credentials").await.status, 410);
    let late = post(leftovers).await;
    assert_eq!((late.status, &late.body["accessKeyId"]), (200, &json!("leftovers")));
    stage.pass(Duration::from_mins(59));
    assert_eq!(post(leftovers).await.status, 200);
    stage.pass(Duration::from_mins(2));
    assert_eq!(post(leftovers).await.status, 410);
}
