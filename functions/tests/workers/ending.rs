//! Stopping runs in every state of their placement, and querying whether they are alive.

use std::time::Duration;

use pilothouse_runtime::{AgentRuntime as _, ProcessState, StopMode};
use pilothouse_wire::worker::{Order, StopOrder};
use serde_json::json;

use crate::fixture::WorkersFixture;

#[tokio::test]
async fn unclaimed_run_that_is_stopped_is_reported_ended() {
    let fixture = WorkersFixture::new().await;
    let waiting = fixture.launched("ada", &[]).await;
    fixture.runtime.stop(waiting.session_id, waiting.run_id, StopMode::Kill).await.unwrap();
    assert_eq!(fixture.ends().await, 1);
    fixture.worker("ada", "w", 1).await;
    assert!(fixture.given("ada", "w").await.is_empty());

    let given = fixture.launched("ada", &[]).await;
    fixture.runtime.stop(given.session_id, given.run_id, StopMode::Kill).await.unwrap();
    assert_eq!(fixture.ends().await, 1);
    assert_eq!(fixture.outcome("ada", "w", given.run_id).await, "run_is_over");
    assert_eq!(fixture.runtime.state(given.run_id).await, ProcessState::Dead);
    let next = fixture.launched("ada", &[]).await;
    assert!(fixture.given("ada", "w").await.contains(&next.run_id), "its capacity is free");
}

#[tokio::test]
async fn claimed_run_is_stopped_by_its_worker() {
    let fixture = WorkersFixture::new().await;
    fixture.worker("ada", "w", 1).await;
    let request = fixture.launched("ada", &[]).await;
    fixture.claim("ada", "w", request.run_id).await;
    fixture.orders("ada", "w").await;
    fixture
        .runtime
        .stop(fixture.session("ada").await.session_id, request.run_id, StopMode::Kill)
        .await
        .unwrap();
    assert!(fixture.orders("ada", "w").await.is_empty(), "another session");
    fixture.runtime.stop(request.session_id, request.run_id, StopMode::Terminate).await.unwrap();
    fixture.runtime.stop(request.session_id, request.run_id, StopMode::Kill).await.unwrap();
    let stop = |mode| Order::Stop { session_id: request.session_id, run_id: request.run_id, mode };
    assert_eq!(fixture.orders("ada", "w").await, [stop(StopOrder::Terminate), stop(StopOrder::Kill)]);
    assert_eq!(fixture.ends().await, 0, "the worker reports the end");
}

#[tokio::test]
async fn last_heartbeat_decides_whether_a_run_is_alive() {
    let fixture = WorkersFixture::new().await;
    fixture.worker("ada", "w", 1).await;
    let request = fixture.launched("ada", &[]).await;
    let run = request.run_id;
    fixture.claim("ada", "w", run).await;
    assert_eq!(fixture.runtime.state(run).await, ProcessState::Alive, "it was just claimed");
    let says = async |state: &str| {
        fixture.heartbeat("ada", "w", 1, json!({ "runs": [{ "runId": run, "state": state }] })).await;
        fixture.runtime.state(run).await
    };
    assert_eq!(says("Alive").await, ProcessState::Alive);
    assert_eq!(says("Over").await, ProcessState::Dead);
    fixture.pass(Duration::from_secs(46));
    assert_eq!(fixture.runtime.state(run).await, ProcessState::Unreachable, "the worker is silent");
    assert_eq!(says("Alive").await, ProcessState::Alive);
    assert_eq!(fixture.runtime.state(fixture.session("ada").await.run_id).await, ProcessState::Unknown);
}

#[tokio::test]
async fn lost_run_is_reported_ended_and_frees_its_place() {
    let fixture = WorkersFixture::new().await;
    fixture.worker("ada", "w", 1).await;
    let request = fixture.launched("ada", &[]).await;
    fixture.claim("ada", "w", request.run_id).await;
    fixture.worker("ada", "w", 1).await;
    assert_eq!(fixture.ends().await, 0, "the worker may not know of its claim yet");
    fixture.pass(Duration::from_secs(46));
    fixture.worker("ada", "w", 1).await;
    assert_eq!(fixture.ends().await, 1);
    fixture.orders("ada", "w").await;
    let next = fixture.launched("ada", &[]).await;
    assert_eq!(fixture.given("ada", "w").await, [next.run_id]);
}

#[tokio::test]
async fn unsent_order_is_sent_by_the_next_heartbeat() {
    let fixture = WorkersFixture::new().await;
    fixture.worker("ada", "w", 1).await;
    let request = fixture.launched("ada", &[]).await;
    // As if it had never been sent: after five minutes the broker no longer deduplicates it.
    fixture.orders("ada", "w").await;
    for _ in 0..30 {
        fixture.pass(Duration::from_secs(15));
        fixture.worker("ada", "w", 1).await;
    }
    assert!(fixture.given("ada", "w").await.contains(&request.run_id));
}
