//! Slots of the pool (S0 8.12, decisions 20, 21).

use pilothouse_tests::{PATIENCE, Session};
use serde_json::{Value, json};

use crate::notifications::until_published;
use crate::scripts::{endless, short, works_until_message};
use crate::server::{Server, started, work};

async fn pool(server: &Server) -> Value {
    server.api().get("/api/agents/pool").await.expect(200).body
}

async fn maximum(server: &Server, slots: u32) -> Value {
    server.api().patch("/api/agents/pool", json!({ "maxConcurrentSessions": slots })).await.expect(200).body
}

/// Without a free slot a start is accepted and queued, and the response shows the load of the pool. It starts later without a
/// further request (decision 20).
#[tokio::test]
async fn session_without_a_slot_queues_and_starts_later() {
    let server = Server::start(1).await;
    assert_eq!(maximum(&server, 1).await["maxCount"], 1);
    let first = started(&server, &works_until_message()).await;
    first.until_said("Working.").await;
    let reply = server.api().post("/api/agents/sessions", work(&server, &short())).await.expect(202);
    let utilization = json!({
        "activeCount": 1, "maxCount": 1, "availableSlots": 0, "utilizationPercent": "100", "waitingCount": 1,
    });
    assert_eq!(reply.body["pool"], utilization);
    let view = &reply.body["session"];
    assert_eq!((&view["status"], &view["queuedReason"]), (&json!("Queued"), &json!("pool-exhausted")));
    let second = server.api().session(view["id"].as_str().unwrap());
    assert_eq!(pool(&server).await["waiting"][0]["sessionId"], second.id.as_str());
    // The queued session accepts messages.
    second.say("By the way.", "Queued").await;

    first.say("go", "Immediate").await;
    first.until_status("Idle").await;
    assert_eq!(second.view().await["status"], "Queued", "an idle session keeps its slot");
    first.post("/close", json!({})).await.expect(200);
    second.until("both turns", |v| v["status"] == "Idle" && v["metrics"]["turnCount"] == 2).await;
    assert_eq!(second.said().await, ["Done.", "You said: By the way."]);
    let counts = pool(&server).await;
    assert_eq!((&counts["activeCount"], &counts["waiting"]), (&json!(1), &json!([])));
    // The event names the session that found no slot, and the load at that time.
    let exhausted = until_published(&second, "SessionPoolExhaustedEvent").await;
    assert_eq!(exhausted["sessionId"], second.id.as_str());
    assert_eq!((&exhausted["currentCount"], &exhausted["maxCount"]), (&json!(1), &json!(1)));
}

/// A higher maximum starts queued sessions in order; a lower one stops none (decision 21).
#[tokio::test]
async fn raised_maximum_starts_queued_sessions_and_lowered_stops_none() {
    let server = Server::start(1).await;
    maximum(&server, 1).await;
    let mut sessions = Vec::new();
    for _ in 0..4 {
        sessions.push(started(&server, &endless()).await);
    }
    let waiting: Vec<_> =
        pool(&server).await["waiting"].as_array().unwrap().iter().map(|w| w["sessionId"].clone()).collect();
    assert_eq!(waiting, [&sessions[1].id, &sessions[2].id, &sessions[3].id].map(|id| json!(id)));
    maximum(&server, 3).await;
    for session in &sessions[..3] {
        session.until_status("Running").await;
    }
    assert_eq!(sessions[3].view().await["queuedReason"], "pool-exhausted");
    let counts = maximum(&server, 1).await;
    assert_eq!((&counts["activeCount"], &counts["utilizationPercent"]), (&json!(3), &json!("300")));
    assert_eq!(sessions[2].view().await["status"], "Running");

    // A slot becomes free only after the number of running sessions drops below the new maximum.
    for session in &sessions[..2] {
        session.post("/cancel", json!({ "force": true })).await;
        session.until_status("Cancelled").await;
    }
    assert_eq!(sessions[3].view().await["status"], "Queued");
    sessions[2].post("/cancel", json!({ "force": true })).await;
    sessions[3].until_status("Running").await;
}

/// Pools are per owner: the sessions of another owner do not use its slots.
#[tokio::test]
async fn pools_are_separate_for_each_owner() {
    let mut server = Server::start(1).await;
    server.serve("someone-else");
    maximum(&server, 1).await;
    let mine = started(&server, &endless()).await;
    let theirs = Session::start(&server.api_of("someone-else"), work(&server, &short())).await;
    theirs.until_status("Idle").await;
    mine.until_status("Running").await;
    let counts = server.api_of("someone-else").get("/api/agents/pool").await.expect(200).body;
    assert_eq!((&counts["activeCount"], &counts["maxCount"]), (&json!(1), &json!(20)));
}

/// A retry and a wake need a slot, too, and wait in the same queue as starts (decision 21).
#[tokio::test]
async fn retry_waits_in_the_same_queue() {
    let server = Server::start(1).await;
    maximum(&server, 1).await;
    let failing = started(&server, &json!({ "steps": [{ "end": { "error": true } }] })).await;
    failing.until_status("Failed").await;
    let free = async || (pool(&server).await["activeCount"] == 0).then_some(());
    failing.until_within(PATIENCE, "a free slot", free).await;
    let working = started(&server, &works_until_message()).await;
    working.until_said("Working.").await;
    let retried = failing.post("/retry", json!({ "additionalInstruction": "Again" })).await.expect(202).body;
    assert_eq!(retried["session"]["status"], "Queued");
    working.post("/cancel", json!({})).await.expect(202);
    failing.until("the retry", |v| v["currentRun"]["ordinal"] == 2 && v["status"] != "Queued").await;
}
