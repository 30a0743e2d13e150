//! Who is given what.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_domain::session::AgentSessionStatus;
use pilothouse_functions::api::sessions::SessionView;
use pilothouse_functions::clock;
use pilothouse_runtime::{AgentRuntime as _, ProcessState};
use serde_json::json;

use crate::stage::{Stage, key};

#[tokio::test]
async fn launches_go_to_the_least_loaded_worker_with_room_and_wait_for_more() {
    let stage = Stage::new().await;
    stage.worker("ada", "small", 1).await;
    stage.worker("ada", "large", 2).await;
    for _ in 0..3 {
        stage.launched("ada", &[]).await;
    }
    let waiting = stage.launched("ada", &[]).await;
    assert_eq!(stage.given("ada", "small").await.len(), 1);
    assert_eq!(stage.given("ada", "large").await.len(), 2);
    assert_eq!(stage.runtime.state(waiting.run_id).await, ProcessState::Waiting);
    stage.worker("ada", "new", 1).await;
    assert_eq!(stage.given("ada", "new").await, [waiting.run_id]);
}

#[tokio::test]
async fn what_waits_is_given_oldest_first_to_who_frees_a_place() {
    let stage = Stage::new().await;
    stage.worker("ada", "w", 1).await;
    let first = stage.launched("ada", &[]).await;
    let second = stage.launched("ada", &[]).await;
    let third = stage.launched("ada", &[]).await;
    assert_eq!(stage.given("ada", "w").await, [first.run_id]);
    assert_eq!(stage.outcome("ada", "w", first.run_id).await, "claimed");
    assert_eq!(stage.exit("ada", "w", &first).await.status, 204);
    assert_eq!(stage.given("ada", "w").await, [second.run_id]);
    stage.worker("ada", "w", 2).await;
    assert_eq!(stage.given("ada", "w").await, [third.run_id]);
}

#[tokio::test]
async fn a_launch_that_is_given_again_changes_nothing() {
    let stage = Stage::new().await;
    stage.worker("ada", "w", 4).await;
    let request = stage.launched("ada", &[]).await;
    stage.app.runtime.launch(request.clone()).await.unwrap();
    assert_eq!(stage.given("ada", "w").await, [request.run_id], "told once");
    assert_eq!(stage.outcome("ada", "w", request.run_id).await, "claimed");
    stage.app.runtime.launch(request).await.unwrap();
    assert!(stage.given("ada", "w").await.is_empty());
}

#[tokio::test]
async fn labels_and_names_are_kept_to() {
    let stage = Stage::new().await;
    stage.beat("ada", "plain", 9, json!({})).await;
    stage.beat("ada", "gpu", 9, json!({ "labels": { "gpu": "a100", "os": "linux" } })).await;
    let wanted = stage.launched("ada", &[("gpu", "a100"), ("os", "linux")]).await;
    let named = stage.launched("ada", &[("id", "plain")]).await;
    let nowhere = stage.launched("ada", &[("gpu", "h100")]).await;
    assert_eq!(stage.given("ada", "gpu").await, [wanted.run_id]);
    assert_eq!(stage.given("ada", "plain").await, [named.run_id]);
    stage.beat("ada", "other", 1, json!({ "labels": { "gpu": "h100" } })).await;
    assert_eq!(stage.given("ada", "other").await, [nowhere.run_id]);
}

#[tokio::test]
async fn a_worker_serves_its_owner_and_one_of_an_operator_everybody_if_it_says_so() {
    let stage = Stage::new().await;
    stage.worker("bob", "w", 9).await;
    stage.worker("operator", "own", 9).await;
    let request = stage.launched("ada", &[]).await;
    assert!(stage.given("bob", "w").await.is_empty());
    assert!(stage.given("operator", "own").await.is_empty());

    let refused = stage.beat("bob", "w", 9, json!({ "shared": true })).await;
    assert_eq!((refused.status, &refused.body["violations"][0]["field"]), (422, &json!("shared")));
    assert_eq!(stage.beat("operator", "all", 1, json!({ "shared": true })).await.status, 200);
    assert_eq!(stage.given("operator", "all").await, [request.run_id]);

    stage.worker("ada", "mine", 1).await;
    let next = stage.launched("ada", &[]).await;
    assert_eq!(stage.given("ada", "mine").await, [next.run_id], "one's own comes first");
}

#[tokio::test]
async fn a_silent_worker_is_given_nothing_and_what_it_never_claimed_goes_to_another() {
    let stage = Stage::new().await;
    stage.worker("ada", "gone", 9).await;
    let claimed = stage.launched("ada", &[]).await;
    assert_eq!(stage.outcome("ada", "gone", claimed.run_id).await, "claimed");
    let unclaimed = stage.launched("ada", &[]).await;
    stage.pass(Duration::from_secs(46));
    let late = stage.launched("ada", &[]).await;
    assert_eq!(stage.runtime.state(claimed.run_id).await, ProcessState::Unknown);
    stage.worker("ada", "here", 9).await;
    assert_eq!(stage.given("ada", "here").await, [unclaimed.run_id, late.run_id], "not what it had claimed");
    assert_eq!(stage.outcome("ada", "gone", unclaimed.run_id).await, "held_by_other");
    assert_eq!(stage.outcome("ada", "here", unclaimed.run_id).await, "claimed");
    let gone = stage.app.store.worker(&key("ada", "gone")).await.unwrap().unwrap().value;
    assert_eq!(gone.runs.into_iter().collect::<Vec<_>>(), [claimed.run_id]);
}

#[tokio::test]
async fn a_worker_that_is_about_to_end_is_given_nothing_and_gives_back_what_it_never_claimed() {
    let stage = Stage::new().await;
    stage.worker("ada", "ending", 9).await;
    let request = stage.launched("ada", &[]).await;
    stage.beat("ada", "ending", 9, json!({ "draining": true })).await;
    let next = stage.launched("ada", &[]).await;
    stage.worker("ada", "here", 9).await;
    assert_eq!(stage.given("ada", "here").await, [request.run_id, next.run_id]);
}

#[tokio::test]
async fn a_session_goes_on_where_its_folders_are_while_that_worker_is_registered() {
    let stage = Stage::new().await;
    stage.worker("ada", "home", 1).await;
    let first = stage.launched("ada", &[]).await;
    assert_eq!(stage.outcome("ada", "home", first.run_id).await, "claimed");
    stage.worker("ada", "other", 9).await;
    // Its next run, as far as an assignment can tell.
    let mut second = stage.session("ada").await;
    let store = &stage.app.store;
    let mut commit = pilothouse_store::Commit::new();
    commit.home(second.session_id, &key("ada", "home")).unwrap();
    store.commit(commit).await.unwrap();
    second.ordinal = 2;
    stage.app.runtime.launch(second.clone()).await.unwrap();
    stage.worker("ada", "other", 9).await;
    assert!(stage.given("ada", "other").await.is_empty(), "its folders are elsewhere");
    assert_eq!(stage.exit("ada", "home", &first).await.status, 204);
    assert_eq!(stage.given("ada", "home").await.last(), Some(&second.run_id));

    let removed = stage.send(Ok("ada"), "DELETE", "/api/workers/home", json!({})).await;
    assert_eq!(removed.status, 204, "{}", removed.body);
    assert_eq!(stage.given("ada", "other").await, [second.run_id], "no such folders any more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn launches_heartbeats_and_ends_at_the_same_time_never_exceed_a_capacity_and_lose_nothing() {
    let stage = Arc::new(Stage::new().await);
    let workers = ["a", "b", "c"];
    for id in workers {
        stage.worker("ada", id, 3).await;
    }
    let launching: Vec<_> = (0..24)
        .map(|_| {
            let stage = Arc::clone(&stage);
            tokio::spawn(async move { stage.launched("ada", &[]).await })
        })
        .collect();
    let mut requests = Vec::new();
    for task in launching {
        requests.push(task.await.unwrap());
    }
    let working: Vec<_> = workers
        .into_iter()
        .map(|id| {
            let (stage, requests) = (Arc::clone(&stage), requests.clone());
            tokio::spawn(async move {
                let mut done = Vec::new();
                let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
                loop {
                    let record = stage.app.store.worker(&key("ada", id)).await.unwrap().unwrap().value;
                    assert!(record.runs.len() <= 3, "{:?}", record.runs);
                    for run in stage.given("ada", id).await {
                        assert_eq!(stage.outcome("ada", id, run).await, "claimed");
                        let request = requests.iter().find(|request| request.run_id == run).unwrap();
                        let reply = stage.exit("ada", id, request).await;
                        assert_eq!(reply.status, 204, "{}", reply.body);
                        done.push(run);
                    }
                    let left = stage.app.store.unclaimed(None, 100, None).await.unwrap().items;
                    if left.is_empty() {
                        return done;
                    }
                    assert!(tokio::time::Instant::now() < deadline, "these are never given: {left:?}");
                    stage.worker("ada", id, 3).await;
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
    assert_eq!(done, launched, "each was started once");
}

#[tokio::test]
async fn a_run_that_no_worker_can_take_says_so_and_waits_for_one() {
    let stage = Stage::new().await;
    let request = stage.launched("ada", &[]).await;
    let look = async || {
        clock::carry_out(&stage.app, request.session_id).await.unwrap();
        SessionView::of(&stage.app.store.session(request.session_id).await.unwrap().unwrap())
    };
    for _ in 0..3 {
        stage.pass(Duration::from_mins(6));
        let view = look().await;
        assert_eq!(view.queued_reason.as_deref(), Some("placement-unavailable"), "{:?}", view.failure_reason);
    }
    stage.worker("ada", "w", 1).await;
    assert_eq!(stage.given("ada", "w").await, [request.run_id]);
    let alive = json!({ "runs": [{ "runId": request.run_id, "state": "Alive" }] });
    stage.pass(Duration::from_mins(6));
    stage.beat("ada", "w", 1, alive.clone()).await;
    assert_eq!(look().await.queued_reason.as_deref(), Some("launching"), "it has its time from now on");
    stage.pass(Duration::from_mins(6));
    stage.beat("ada", "w", 1, alive).await;
    assert_eq!(look().await.status, AgentSessionStatus::Failed);
}
