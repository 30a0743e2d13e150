//! Claims of runs, and the responses to them.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_runtime::{AgentRuntime as _, ProcessState};
use serde_json::json;

use crate::fixture::WorkersFixture;

#[tokio::test]
async fn claim_returns_the_run_keys_and_can_be_repeated() {
    let fixture = WorkersFixture::new().await;
    fixture.worker("ada", "w", 1).await;
    let request = fixture.launched("ada", &[]).await;
    let first = fixture.claim("ada", "w", request.run_id).await.body;
    assert_eq!(first["outcome"], "claimed");
    let access = &first["access"];
    assert_eq!(access["agentApi"]["apiKey"], fixture.secret.api_key(request.session_id, 0));
    assert_eq!(access["envelopeKey"], json!(fixture.secret.envelope_key(request.run_id)));
    let token = fixture.secret.gateway_token(request.session_id, request.run_id);
    let broker = json!({ "kind": "gateway", "url": "http://control.plane", "token": token, "http2": true });
    assert_eq!(access["broker"], broker);
    assert_eq!(fixture.claim("ada", "w", request.run_id).await.body, first);
}

#[tokio::test]
async fn workers_and_runs_of_other_owners_are_not_found() {
    let fixture = WorkersFixture::new().await;
    fixture.worker("ada", "w", 9).await;
    let request = fixture.launched("ada", &[]).await;
    // First bob has no such worker; then he has one of the same name, to which the run was not assigned.
    for registered in [false, true] {
        if registered {
            fixture.worker("bob", "w", 9).await;
        }
        assert_eq!(fixture.claim("bob", "w", request.run_id).await.status, 404);
        assert_eq!(fixture.exit("bob", "w", &request).await.status, 404);
    }
    assert_eq!(fixture.send(Ok("bob"), "DELETE", "/api/workers/other", json!({})).await.status, 404);
    let listed = fixture.send(Ok("bob"), "GET", "/api/workers", json!({})).await.body;
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "his own");
    assert!(fixture.given("bob", "w").await.is_empty());
    assert_eq!(fixture.outcome("ada", "w", request.run_id).await, "claimed");
    assert_eq!(fixture.exit("bob", "w", &request).await.status, 404);
    assert_eq!(fixture.ends().await, 0, "no other worker reports its end");
}

#[tokio::test]
async fn exit_is_accepted_for_claimed_runs_and_repeatable() {
    let fixture = WorkersFixture::new().await;
    fixture.worker("ada", "w", 1).await;
    let request = fixture.launched("ada", &[]).await;
    assert_eq!(fixture.exit("ada", "w", &request).await.status, 404, "not claimed");
    fixture.claim("ada", "w", request.run_id).await;
    let mut of_other = fixture.session("ada").await;
    of_other.run_id = request.run_id;
    assert_eq!(fixture.exit("ada", "w", &of_other).await.status, 404, "another session");
    assert_eq!(fixture.exit("ada", "w", &request).await.status, 204);
    assert_eq!(fixture.exit("ada", "w", &request).await.status, 204);
    assert_eq!(fixture.ends().await, 1, "a repeat is recognised by its run");
    assert_eq!(fixture.runtime.state(request.run_id).await, ProcessState::Dead);
    assert_eq!(fixture.outcome("ada", "w", request.run_id).await, "run_is_over");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn run_reassigned_during_a_claim_has_one_holder() {
    for _ in 0..10 {
        let fixture = Arc::new(WorkersFixture::new().await);
        fixture.worker("ada", "old", 1).await;
        let run = fixture.launched("ada", &[]).await.run_id;
        fixture.pass(Duration::from_secs(46));
        let (one, two) = (Arc::clone(&fixture), Arc::clone(&fixture));
        let claims = tokio::spawn(async move { one.outcome("ada", "old", run).await });
        let takes_over = tokio::spawn(async move { two.worker("ada", "new", 1).await });
        let old = claims.await.unwrap();
        takes_over.await.unwrap();
        let new = if fixture.given("ada", "new").await.is_empty() {
            "held_by_other".to_owned()
        } else {
            fixture.outcome("ada", "new", run).await
        };
        let mut outcomes = [old.as_str(), new.as_str()];
        outcomes.sort_unstable();
        assert_eq!(outcomes, ["claimed", "held_by_other"]);
    }
}

#[tokio::test]
async fn invalid_heartbeat_reports_its_violations() {
    let fixture = WorkersFixture::new().await;
    let labels = json!({ "labels": { "id": "x" }, "shared": true });
    let refused = fixture.heartbeat("ada", "w", 0, labels).await;
    let fields: Vec<_> =
        refused.body["violations"].as_array().unwrap().iter().map(|v| v["field"].as_str().unwrap()).collect();
    assert_eq!((refused.status, fields), (422, vec!["capacity", "shared", "labels.id"]));
    assert_eq!(fixture.heartbeat("ada", "w", 1, json!({ "colour": "red" })).await.status, 422);
    assert_eq!(fixture.heartbeat("ada", "-w", 1, json!({})).await.status, 422);
    assert_eq!(
        fixture.send(Err("nothing"), "PUT", "/api/workers/w", json!({ "capacity": 1 })).await.status,
        401
    );
}
