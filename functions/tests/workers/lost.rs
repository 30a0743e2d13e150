//! A worker that is declared lost, and a worker that returns after that.

use std::time::Duration;

use pilothouse_app::queues;
use pilothouse_broker::Broker as _;
use pilothouse_domain::session::AgentSessionStatus;
use pilothouse_functions::events::intake;
use pilothouse_runtime::{AgentRuntime as _, ProcessState};
use serde_json::json;

use crate::fixture::WorkersFixture;

async fn take_events(fixture: &WorkersFixture) {
    let batch = fixture.broker.receive(&queues::events(), 10, Duration::ZERO).await.unwrap();
    intake::process_and_settle(&fixture.app, batch).await.unwrap();
}

#[tokio::test]
async fn worker_with_runs_is_removed_only_when_lost() {
    let fixture = WorkersFixture::new().await;
    fixture.worker("ada", "w", 2).await;
    let request = fixture.launched("ada", &[]).await;
    fixture.claim("ada", "w", request.run_id).await;
    let unclaimed = fixture.launched("ada", &[]).await;
    let refused = fixture.send(Ok("ada"), "DELETE", "/api/workers/w", json!({})).await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("worker-has-runs")));
    let refused = fixture.send(Ok("ada"), "DELETE", "/api/workers/w?lost=perhaps", json!({})).await;
    assert_eq!(refused.status, 422);
    let refused = fixture.send(Ok("bob"), "DELETE", "/api/workers/w?lost=true", json!({})).await;
    assert_eq!(refused.status, 404);

    let removed = fixture.send(Ok("ada"), "DELETE", "/api/workers/w?lost=true", json!({})).await;
    assert_eq!(removed.status, 204, "{}", removed.body);
    assert_eq!(fixture.runtime.state(request.run_id).await, ProcessState::Dead);
    assert_eq!(fixture.runtime.state(unclaimed.run_id).await, ProcessState::Waiting);
    take_events(&fixture).await;
    let session = fixture.app.store.session(request.session_id).await.unwrap().unwrap();
    assert_eq!(session.status(), AgentSessionStatus::Failed);
    let past = session.past_runs().last().unwrap();
    assert_eq!((past.id, past.end_uncertain), (request.run_id, true));
}

#[tokio::test]
async fn returning_worker_ends_lost_runs_before_new_assignments() {
    let fixture = WorkersFixture::new().await;
    fixture.worker("ada", "w", 2).await;
    let request = fixture.launched("ada", &[]).await;
    fixture.claim("ada", "w", request.run_id).await;
    fixture.send(Ok("ada"), "DELETE", "/api/workers/w?lost=true", json!({})).await;
    take_events(&fixture).await;
    let next = fixture.launched("ada", &[]).await;

    let alive = json!({ "runs": [{ "runId": request.run_id, "state": "Alive" }] });
    let response = fixture.heartbeat("ada", "w", 2, alive).await;
    assert_eq!(response.body["lostRuns"], json!([request.run_id]), "{}", response.body);
    assert!(fixture.given("ada", "w").await.is_empty());
    assert_eq!(fixture.outcome("ada", "w", request.run_id).await, "run_is_over");
    let over = json!({ "runs": [{ "runId": request.run_id, "state": "Over" }] });
    fixture.heartbeat("ada", "w", 2, over).await;
    assert_eq!(fixture.given("ada", "w").await, [next.run_id]);
    assert_eq!(fixture.exit("ada", "w", &request).await.status, 204, "its end changes nothing");
    take_events(&fixture).await;
    let session = fixture.app.store.session(request.session_id).await.unwrap().unwrap();
    assert_eq!(session.past_runs().len(), 1);
}
