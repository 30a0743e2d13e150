//! Stopping runs wherever they are, and knowing whether they live.

use std::time::Duration;

use pilothouse_runtime::{AgentRuntime as _, ProcessState, StopMode};
use pilothouse_wire::worker::{Order, StopOrder};
use serde_json::json;

use crate::stage::Stage;

#[tokio::test]
async fn a_run_that_is_stopped_before_anybody_claims_it_never_starts_and_is_told_to_be_over() {
    let stage = Stage::new().await;
    let waiting = stage.launched("ada", &[]).await;
    stage.runtime.stop(waiting.session_id, waiting.run_id, StopMode::Kill).await.unwrap();
    assert_eq!(stage.ends().await, 1);
    stage.worker("ada", "w", 1).await;
    assert!(stage.given("ada", "w").await.is_empty());

    let given = stage.launched("ada", &[]).await;
    stage.runtime.stop(given.session_id, given.run_id, StopMode::Kill).await.unwrap();
    assert_eq!(stage.ends().await, 1);
    assert_eq!(stage.outcome("ada", "w", given.run_id).await, "run_is_over");
    assert_eq!(stage.runtime.state(given.run_id).await, ProcessState::Dead);
    let next = stage.launched("ada", &[]).await;
    assert!(stage.given("ada", "w").await.contains(&next.run_id), "its place is free");
}

#[tokio::test]
async fn a_run_that_was_claimed_is_stopped_by_its_worker() {
    let stage = Stage::new().await;
    stage.worker("ada", "w", 1).await;
    let request = stage.launched("ada", &[]).await;
    stage.claim("ada", "w", request.run_id).await;
    stage.orders("ada", "w").await;
    stage.runtime.stop(stage.session("ada").await.session_id, request.run_id, StopMode::Kill).await.unwrap();
    assert!(stage.orders("ada", "w").await.is_empty(), "of another session");
    stage.runtime.stop(request.session_id, request.run_id, StopMode::Terminate).await.unwrap();
    stage.runtime.stop(request.session_id, request.run_id, StopMode::Kill).await.unwrap();
    let stop = |mode| Order::Stop { session_id: request.session_id, run_id: request.run_id, mode };
    assert_eq!(stage.orders("ada", "w").await, [stop(StopOrder::Terminate), stop(StopOrder::Kill)]);
    assert_eq!(stage.ends().await, 0, "the worker tells of the end");
}

#[tokio::test]
async fn the_last_heartbeat_says_whether_a_run_lives() {
    let stage = Stage::new().await;
    stage.worker("ada", "w", 1).await;
    let request = stage.launched("ada", &[]).await;
    let run = request.run_id;
    stage.claim("ada", "w", run).await;
    assert_eq!(stage.runtime.state(run).await, ProcessState::Alive, "it was just claimed");
    let says = async |state: &str| {
        stage.beat("ada", "w", 1, json!({ "runs": [{ "runId": run, "state": state }] })).await;
        stage.runtime.state(run).await
    };
    assert_eq!(says("Alive").await, ProcessState::Alive);
    assert_eq!(says("Over").await, ProcessState::Dead);
    stage.pass(Duration::from_secs(46));
    assert_eq!(stage.runtime.state(run).await, ProcessState::Unknown, "the worker is silent");
    assert_eq!(says("Alive").await, ProcessState::Alive);
    assert_eq!(stage.runtime.state(stage.session("ada").await.run_id).await, ProcessState::Unknown);
}

#[tokio::test]
async fn a_run_that_its_worker_has_lost_is_told_to_be_over_and_frees_its_place() {
    let stage = Stage::new().await;
    stage.worker("ada", "w", 1).await;
    let request = stage.launched("ada", &[]).await;
    stage.claim("ada", "w", request.run_id).await;
    stage.worker("ada", "w", 1).await;
    assert_eq!(stage.ends().await, 0, "the worker may not have heard of its claim yet");
    stage.pass(Duration::from_secs(46));
    stage.worker("ada", "w", 1).await;
    assert_eq!(stage.ends().await, 1);
    stage.orders("ada", "w").await;
    let next = stage.launched("ada", &[]).await;
    assert_eq!(stage.given("ada", "w").await, [next.run_id]);
}

#[tokio::test]
async fn an_order_that_was_committed_and_never_sent_is_sent_by_the_next_heartbeats() {
    let stage = Stage::new().await;
    stage.worker("ada", "w", 1).await;
    let request = stage.launched("ada", &[]).await;
    // As if it had never been sent: after five minutes the broker has forgotten that it was.
    stage.orders("ada", "w").await;
    for _ in 0..30 {
        stage.pass(Duration::from_secs(15));
        stage.worker("ada", "w", 1).await;
    }
    assert!(stage.given("ada", "w").await.contains(&request.run_id));
}
