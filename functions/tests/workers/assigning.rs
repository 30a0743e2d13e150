//! Assignment of runs to workers.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_api::sessions::SessionView;
use pilothouse_domain::session::AgentSessionStatus;
use pilothouse_functions::events::clock;
use pilothouse_runtime::{AgentRuntime as _, ProcessState};
use pilothouse_wire::launch::LaunchRequest;
use serde_json::json;

use crate::fixture::{WorkersFixture, key};

#[tokio::test]
async fn launches_go_to_the_least_loaded_worker_or_wait() {
    let fixture = WorkersFixture::new().await;
    fixture.worker("ada", "small", 1).await;
    fixture.worker("ada", "large", 2).await;
    for _ in 0..3 {
        fixture.launched("ada", &[]).await;
    }
    let waiting = fixture.launched("ada", &[]).await;
    assert_eq!(fixture.given("ada", "small").await.len(), 1);
    assert_eq!(fixture.given("ada", "large").await.len(), 2);
    assert_eq!(fixture.runtime.state(waiting.run_id).await, ProcessState::Waiting);
    fixture.worker("ada", "new", 1).await;
    assert_eq!(fixture.given("ada", "new").await, [waiting.run_id]);
}

#[tokio::test]
async fn oldest_waiting_launch_gets_the_freed_place() {
    let fixture = WorkersFixture::new().await;
    fixture.worker("ada", "w", 1).await;
    let first = fixture.launched("ada", &[]).await;
    let second = fixture.launched("ada", &[]).await;
    let third = fixture.launched("ada", &[]).await;
    assert_eq!(fixture.given("ada", "w").await, [first.run_id]);
    assert_eq!(fixture.outcome("ada", "w", first.run_id).await, "claimed");
    assert_eq!(fixture.exit("ada", "w", &first).await.status, 204);
    assert_eq!(fixture.given("ada", "w").await, [second.run_id]);
    fixture.worker("ada", "w", 2).await;
    assert_eq!(fixture.given("ada", "w").await, [third.run_id]);
}

#[tokio::test]
async fn repeated_assignment_changes_nothing() {
    let fixture = WorkersFixture::new().await;
    fixture.worker("ada", "w", 4).await;
    let request = fixture.launched("ada", &[]).await;
    fixture.app.runtime.launch(request.clone()).await.unwrap();
    assert_eq!(fixture.given("ada", "w").await, [request.run_id], "sent once");
    assert_eq!(fixture.outcome("ada", "w", request.run_id).await, "claimed");
    fixture.app.runtime.launch(request).await.unwrap();
    assert!(fixture.given("ada", "w").await.is_empty());
}

#[tokio::test]
async fn labels_and_names_restrict_assignment() {
    let fixture = WorkersFixture::new().await;
    fixture.heartbeat("ada", "plain", 9, json!({})).await;
    fixture.heartbeat("ada", "gpu", 9, json!({ "labels": { "gpu": "a100", "os": "linux" } })).await;
    let wanted = fixture.launched("ada", &[("gpu", "a100"), ("os", "linux")]).await;
    let named = fixture.launched("ada", &[("id", "plain")]).await;
    let nowhere = fixture.launched("ada", &[("gpu", "h100")]).await;
    assert_eq!(fixture.given("ada", "gpu").await, [wanted.run_id]);
    assert_eq!(fixture.given("ada", "plain").await, [named.run_id]);
    fixture.heartbeat("ada", "other", 1, json!({ "labels": { "gpu": "h100" } })).await;
    assert_eq!(fixture.given("ada", "other").await, [nowhere.run_id]);
}

#[tokio::test]
async fn shared_operator_worker_serves_every_owner() {
    let fixture = WorkersFixture::new().await;
    fixture.worker("bob", "w", 9).await;
    fixture.worker("operator", "own", 9).await;
    let request = fixture.launched("ada", &[]).await;
    assert!(fixture.given("bob", "w").await.is_empty());
    assert!(fixture.given("operator", "own").await.is_empty());

    let refused = fixture.heartbeat("bob", "w", 9, json!({ "shared": true })).await;
    assert_eq!((refused.status, &refused.body["violations"][0]["field"]), (422, &json!("shared")));
    assert_eq!(fixture.heartbeat("operator", "all", 1, json!({ "shared": true })).await.status, 200);
    assert_eq!(fixture.given("operator", "all").await, [request.run_id]);

    fixture.worker("ada", "mine", 1).await;
    let next = fixture.launched("ada", &[]).await;
    assert_eq!(fixture.given("ada", "mine").await, [next.run_id], "the owner's worker comes first");
}

#[tokio::test]
async fn unclaimed_runs_of_a_silent_worker_are_reassigned() {
    let fixture = WorkersFixture::new().await;
    fixture.worker("ada", "gone", 9).await;
    let claimed = fixture.launched("ada", &[]).await;
    assert_eq!(fixture.outcome("ada", "gone", claimed.run_id).await, "claimed");
    let unclaimed = fixture.launched("ada", &[]).await;
    fixture.pass(Duration::from_secs(46));
    let late = fixture.launched("ada", &[]).await;
    assert_eq!(fixture.runtime.state(claimed.run_id).await, ProcessState::Unreachable);
    fixture.worker("ada", "here", 9).await;
    assert_eq!(
        fixture.given("ada", "here").await,
        [unclaimed.run_id, late.run_id],
        "without the claimed run"
    );
    assert_eq!(fixture.outcome("ada", "gone", unclaimed.run_id).await, "held_by_other");
    assert_eq!(fixture.outcome("ada", "here", unclaimed.run_id).await, "claimed");
    let gone = fixture.app.store.worker(&key("ada", "gone")).await.unwrap().unwrap().value;
    assert_eq!(gone.runs.into_iter().collect::<Vec<_>>(), [claimed.run_id]);
}

#[tokio::test]
async fn draining_worker_gets_nothing_and_returns_unclaimed_runs() {
    let fixture = WorkersFixture::new().await;
    fixture.worker("ada", "ending", 9).await;
    let request = fixture.launched("ada", &[]).await;
    fixture.heartbeat("ada", "ending", 9, json!({ "draining": true })).await;
    let next = fixture.launched("ada", &[]).await;
    fixture.worker("ada", "here", 9).await;
    assert_eq!(fixture.given("ada", "here").await, [request.run_id, next.run_id]);
}

#[tokio::test]
async fn session_stays_on_the_worker_that_has_its_folders() {
    let fixture = WorkersFixture::new().await;
    fixture.worker("ada", "home", 1).await;
    let first = fixture.launched("ada", &[]).await;
    assert_eq!(fixture.outcome("ada", "home", first.run_id).await, "claimed");
    fixture.worker("ada", "other", 9).await;
    // The next run, from the perspective of the assigner.
    let mut second = fixture.session("ada").await;
    let store = &fixture.app.store;
    let mut commit = pilothouse_store::Commit::new();
    commit.record_session_worker(second.session_id, &key("ada", "home")).unwrap();
    store.commit(commit).await.unwrap();
    second.ordinal = 2;
    fixture.app.runtime.launch(second.clone()).await.unwrap();
    fixture.worker("ada", "other", 9).await;
    assert!(fixture.given("ada", "other").await.is_empty(), "its folders are on another worker");
    assert_eq!(fixture.exit("ada", "home", &first).await.status, 204);
    assert_eq!(fixture.given("ada", "home").await.last(), Some(&second.run_id));

    let removed = fixture.send(Ok("ada"), "DELETE", "/api/workers/home", json!({})).await;
    assert_eq!(removed.status, 204, "{}", removed.body);
    assert_eq!(fixture.given("ada", "other").await, [second.run_id], "its folders no longer exist");
}

#[tokio::test]
async fn run_waits_until_a_worker_announces_its_disk() {
    let fixture = WorkersFixture::new().await;
    let announces = async |free: u64| {
        fixture.heartbeat("ada", "w", 9, json!({ "workspace": { "freeDiskMb": free } })).await
    };
    let needing = |mut request: LaunchRequest| {
        let limits = json!({ "resourceLimits": { "diskMb": 100 } });
        request.workspace = Some(Box::new(serde_json::from_value(limits).unwrap()));
        request
    };
    announces(99).await;
    let first = needing(fixture.session("ada").await);
    fixture.app.runtime.launch(first.clone()).await.unwrap();
    assert_eq!(fixture.runtime.state(first.run_id).await, ProcessState::Waiting);
    assert!(!fixture.runtime.has_suitable_worker(&first).await.unwrap());
    announces(100).await;
    assert_eq!(fixture.given("ada", "w").await, [first.run_id]);
    assert!(fixture.runtime.has_suitable_worker(&first).await.unwrap());
    assert_eq!(fixture.outcome("ada", "w", first.run_id).await, "claimed");

    // A session that has run on the worker returns, because its own files use the disk.
    announces(0).await;
    let second = needing(fixture.session("ada").await);
    let mut commit = pilothouse_store::Commit::new();
    commit.record_session_worker(second.session_id, &key("ada", "w")).unwrap();
    fixture.app.store.commit(commit).await.unwrap();
    fixture.app.runtime.launch(second.clone()).await.unwrap();
    assert_eq!(fixture.given("ada", "w").await, [second.run_id]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_assignment_never_exceeds_capacity() {
    let fixture = Arc::new(WorkersFixture::new().await);
    let workers = ["a", "b", "c"];
    for id in workers {
        fixture.worker("ada", id, 3).await;
    }
    let launching: Vec<_> = (0..24)
        .map(|_| {
            let fixture = Arc::clone(&fixture);
            tokio::spawn(async move { fixture.launched("ada", &[]).await })
        })
        .collect();
    let mut requests = Vec::new();
    for task in launching {
        requests.push(task.await.unwrap());
    }
    let working: Vec<_> = workers
        .into_iter()
        .map(|id| {
            let (fixture, requests) = (Arc::clone(&fixture), requests.clone());
            tokio::spawn(async move {
                let mut done = Vec::new();
                let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
                loop {
                    let record = fixture.app.store.worker(&key("ada", id)).await.unwrap().unwrap().value;
                    assert!(record.runs.len() <= 3, "{:?}", record.runs);
                    for run in fixture.given("ada", id).await {
                        assert_eq!(fixture.outcome("ada", id, run).await, "claimed");
                        let request = requests.iter().find(|request| request.run_id == run).unwrap();
                        let reply = fixture.exit("ada", id, request).await;
                        assert_eq!(reply.status, 204, "{}", reply.body);
                        done.push(run);
                    }
                    let left = fixture.app.store.unclaimed(None, 100, None).await.unwrap().items;
                    if left.is_empty() {
                        return done;
                    }
                    assert!(tokio::time::Instant::now() < deadline, "not assigned: {left:?}");
                    fixture.worker("ada", id, 3).await;
                }
            })
        })
        .collect();
    let mut done = Vec::new();
    for task in working {
        done.extend(task.await.unwrap());
    }
    let mut launched: Vec<_> = requests.iter().map(|request| request.run_id).collect();
    launched.sort_unstable();
    done.sort_unstable();
    assert_eq!(done, launched, "each run was started once");
}

#[tokio::test]
async fn run_without_a_suitable_worker_reports_it_and_waits() {
    let fixture = WorkersFixture::new().await;
    let request = fixture.launched("ada", &[]).await;
    let look = async || {
        clock::carry_out(&fixture.app, request.session_id).await.unwrap();
        SessionView::of(&fixture.app.store.session(request.session_id).await.unwrap().unwrap())
    };
    for _ in 0..3 {
        fixture.pass(Duration::from_mins(6));
        let view = look().await;
        assert_eq!(view.queued_reason.as_deref(), Some("placement-unavailable"), "{:?}", view.failure_reason);
    }
    fixture.worker("ada", "w", 1).await;
    assert_eq!(fixture.given("ada", "w").await, [request.run_id]);
    let alive = json!({ "runs": [{ "runId": request.run_id, "state": "Alive" }] });
    fixture.pass(Duration::from_mins(6));
    fixture.heartbeat("ada", "w", 1, alive.clone()).await;
    assert_eq!(look().await.queued_reason.as_deref(), Some("launching"), "its deadline starts now");
    fixture.pass(Duration::from_mins(6));
    fixture.heartbeat("ada", "w", 1, alive).await;
    assert_eq!(look().await.status, AgentSessionStatus::Failed);
}
