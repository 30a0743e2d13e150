//! Who may claim what, and what they get.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_runtime::{AgentRuntime as _, ProcessState};
use serde_json::json;

use crate::stage::Stage;

#[tokio::test]
async fn who_claims_a_run_gets_its_keys_and_gets_them_again() {
    let stage = Stage::new().await;
    stage.worker("ada", "w", 1).await;
    let request = stage.launched("ada", &[]).await;
    let first = stage.claim("ada", "w", request.run_id).await.body;
    assert_eq!(first["outcome"], "claimed");
    let access = &first["access"];
    assert_eq!(access["agentApi"]["apiKey"], stage.secret.api_key(request.session_id, 0));
    assert_eq!(access["envelopeKey"], json!(stage.secret.envelope_key(request.run_id)));
    let token = stage.secret.gateway_token(request.session_id, request.run_id);
    assert_eq!(access["broker"], json!({ "kind": "gateway", "url": "http://control.plane", "token": token }));
    assert_eq!(stage.claim("ada", "w", request.run_id).await.body, first);
}

#[tokio::test]
async fn another_owners_workers_and_runs_are_not_there() {
    let stage = Stage::new().await;
    stage.worker("ada", "w", 9).await;
    let request = stage.launched("ada", &[]).await;
    // Bob has no such worker, and then one of the same name that was never given the run.
    for registered in [false, true] {
        if registered {
            stage.worker("bob", "w", 9).await;
        }
        assert_eq!(stage.claim("bob", "w", request.run_id).await.status, 404);
        assert_eq!(stage.exit("bob", "w", &request).await.status, 404);
    }
    assert_eq!(stage.send(Ok("bob"), "DELETE", "/api/workers/other", json!({})).await.status, 404);
    let listed = stage.send(Ok("bob"), "GET", "/api/workers", json!({})).await.body;
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "his own");
    assert!(stage.given("bob", "w").await.is_empty());
    assert_eq!(stage.outcome("ada", "w", request.run_id).await, "claimed");
    assert_eq!(stage.exit("bob", "w", &request).await.status, 404);
    assert_eq!(stage.ends().await, 0, "nobody else tells of its end");
}

#[tokio::test]
async fn an_end_is_told_only_of_what_was_claimed_and_may_be_told_again() {
    let stage = Stage::new().await;
    stage.worker("ada", "w", 1).await;
    let request = stage.launched("ada", &[]).await;
    assert_eq!(stage.exit("ada", "w", &request).await.status, 404, "not claimed");
    stage.claim("ada", "w", request.run_id).await;
    let mut of_other = stage.session("ada").await;
    of_other.run_id = request.run_id;
    assert_eq!(stage.exit("ada", "w", &of_other).await.status, 404, "another session");
    assert_eq!(stage.exit("ada", "w", &request).await.status, 204);
    assert_eq!(stage.exit("ada", "w", &request).await.status, 204);
    assert_eq!(stage.ends().await, 1, "a repeat is recognised by its run");
    assert_eq!(stage.runtime.state(request.run_id).await, ProcessState::Dead);
    assert_eq!(stage.outcome("ada", "w", request.run_id).await, "run_is_over");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_run_that_is_taken_over_while_it_is_claimed_has_one_holder() {
    for _ in 0..10 {
        let stage = Arc::new(Stage::new().await);
        stage.worker("ada", "old", 1).await;
        let run = stage.launched("ada", &[]).await.run_id;
        stage.pass(Duration::from_secs(46));
        let (one, two) = (Arc::clone(&stage), Arc::clone(&stage));
        let claims = tokio::spawn(async move { one.outcome("ada", "old", run).await });
        let takes_over = tokio::spawn(async move { two.worker("ada", "new", 1).await });
        let old = claims.await.unwrap();
        takes_over.await.unwrap();
        let new = if stage.given("ada", "new").await.is_empty() {
            "held_by_other".to_owned()
        } else {
            stage.outcome("ada", "new", run).await
        };
        let mut outcomes = [old.as_str(), new.as_str()];
        outcomes.sort_unstable();
        assert_eq!(outcomes, ["claimed", "held_by_other"]);
    }
}

#[tokio::test]
async fn what_a_worker_may_not_say_is_named() {
    let stage = Stage::new().await;
    let labels = json!({ "labels": { "id": "x" }, "shared": true });
    let refused = stage.beat("ada", "w", 0, labels).await;
    let fields: Vec<_> =
        refused.body["violations"].as_array().unwrap().iter().map(|v| v["field"].as_str().unwrap()).collect();
    assert_eq!((refused.status, fields), (422, vec!["capacity", "shared", "labels.id"]));
    assert_eq!(stage.beat("ada", "w", 1, json!({ "colour": "red" })).await.status, 422);
    assert_eq!(stage.beat("ada", "-w", 1, json!({})).await.status, 422);
    assert_eq!(
        stage.send(Err("nothing"), "PUT", "/api/workers/w", json!({ "capacity": 1 })).await.status,
        401
    );
}
