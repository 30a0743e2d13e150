//! Interrupt and cancel, also in intermediate statuses (S3; decisions 12, 16, 29).

use pilothouse_tests::{PATIENCE, Session};
use serde_json::{Value, json};

use crate::scripts::{endless, say, script, short, turn};
use crate::server::{Server, started, work};

async fn interrupted_with_two(server: &Server) -> (Session, Vec<String>) {
    let session = started(server, &endless()).await;
    session.until_said("Working.").await;
    session.say("first", "Queued").await;
    session.say("second", "Queued").await;
    assert_eq!(session.post("/interrupt", json!({})).await.expect(202).body["status"], "Interrupting");
    let view = session.until_status("Interrupted").await;
    assert_eq!(view["metrics"]["turnCount"], 0, "an interrupted turn is not counted");
    let queue = session.queue().await;
    assert_eq!(queue["held"], true);
    assert_eq!(contents(&queue), ["first", "second"]);
    let ids = queue["items"].as_array().unwrap().iter().map(|m| m["messageId"].as_str().unwrap().to_owned());
    (session, ids.collect())
}

fn contents(queue: &Value) -> Vec<&str> {
    queue["items"].as_array().unwrap().iter().map(|m| m["content"].as_str().unwrap()).collect()
}

/// Messages that are pending at an interrupt are held until the owner releases them in one of three ways (decision 29).
#[tokio::test]
async fn pending_messages_wait_for_the_owner_after_an_interrupt() {
    let server = Server::start(1).await;
    let (released, ids) = interrupted_with_two(&server).await;
    let (promoted, promoted_ids) = interrupted_with_two(&server).await;
    let (sent, _) = interrupted_with_two(&server).await;

    released.post(&format!("/messages/queue/{}/release", ids[0]), json!({})).await.expect(200);
    let path = format!("/messages/queue/{}/promote", promoted_ids[1]);
    promoted.patch(&path, json!({})).await.expect(200);
    sent.say("now this", "Immediate").await;

    for (session, expected) in [
        (released, vec!["Working.", "You said: first", "You said: second"]),
        (promoted, vec!["Working.", "You said: second", "You said: first"]),
        (sent, vec!["Working.", "You said: now this", "You said: first", "You said: second"]),
    ] {
        let turns = expected.len() - 1;
        session.until("all turns", |v| v["status"] == "Idle" && v["metrics"]["turnCount"] == turns).await;
        assert_eq!(session.said().await, expected);
        assert_eq!(contents(&session.queue().await), Vec::<&str>::new());
    }
}

/// `clearQueue` cancels the pending messages, and the session waits (decision 29).
#[tokio::test]
async fn an_interrupt_can_clear_the_queue() {
    let server = Server::start(1).await;
    let session = started(&server, &endless()).await;
    session.until_said("Working.").await;
    session.say("never mind", "Queued").await;
    session.post("/interrupt", json!({ "clearQueue": true })).await.expect(202);
    session.until_status("Interrupted").await;
    assert_eq!(session.queue().await["items"], json!([]));
    session.say("another way", "Queued").await;
    session.until("the turn", |v| v["metrics"]["turnCount"] == 1).await;
    assert_eq!(session.said().await, ["Working.", "You said: another way"]);
}

/// Checks that the session is cancelled, without a process and without messages.
async fn is_cancelled(session: &Session) {
    let view = session.until_status("Cancelled").await;
    assert!(view["completedAt"].is_string());
    assert_eq!(view["cancelAccepted"], false);
    session.post("/cancel", json!({})).await.refused(409, "invalid-transition");
    assert_eq!(session.queue().await["items"], json!([]));
    let gone = async || (session.view().await["currentRun"].is_null()).then_some(());
    session.until_within(PATIENCE, "the end of the run", gone).await;
}

/// Cancel is accepted in every status that is not terminal (S0 8.4).
#[tokio::test]
async fn a_session_is_cancelled_from_every_resting_status() {
    let server = Server::start(1).await;
    let asks = json!({ "question": { "questions": [{ "question": "Which?" }] } });
    let plans = json!({ "plan": { "text": "1. Do it" } });
    let cases = [
        ("Running", endless()),
        ("Interrupted", endless()),
        ("Paused", endless()),
        ("WaitingForInput", script(&[turn(&[asks])])),
        ("WaitingForApproval", script(&[turn(&[plans])])),
        ("Idle", short()),
    ];
    for (status, plays) in cases {
        let session = started(&server, &plays).await;
        match status {
            "Interrupted" => {
                session.until_said("Working.").await;
                session.post("/interrupt", json!({})).await.expect(202);
            }
            "Paused" => {
                session.until_said("Working.").await;
                session.post("/pause", json!({})).await.expect(202);
            }
            _ => {}
        }
        session.until_status(status).await;
        let cancelled = session.post("/cancel", json!({})).await;
        assert_eq!(cancelled.status, 202, "{status}: {}", cancelled.text);
        assert_eq!(cancelled.body["status"], "Cancelling", "{status}");
        is_cancelled(&session).await;
    }
    let free =
        async || (server.api().get("/api/agents/pool").await.body["leases"] == json!([])).then_some(());
    let any = server.api().session("none");
    any.until_within(PATIENCE, "no leases", free).await;
}

/// A session that waits for a slot or for its sidecar is cancelled at once (decision 16).
#[tokio::test]
async fn a_queued_session_is_cancelled_at_once() {
    let server = Server::start(1).await;
    server.api().patch("/api/agents/pool", json!({ "maxConcurrentSessions": 1 })).await.expect(200);
    let first = started(&server, &endless()).await;
    let second = started(&server, &endless()).await;
    assert_eq!(second.view().await["status"], "Queued");
    assert_eq!(second.post("/cancel", json!({})).await.expect(200).body["status"], "Cancelled");
    let pool = server.api().get("/api/agents/pool").await.expect(200).body;
    assert_eq!(pool["activeCount"], 1);
    first.post("/cancel", json!({ "force": true })).await;
    first.until_status("Cancelled").await;
    let empty = async || {
        let pool = server.api().get("/api/agents/pool").await.expect(200).body;
        (pool["activeCount"] == 0 && pool["waiting"] == json!([])).then_some(())
    };
    first.until_within(PATIENCE, "an empty pool", empty).await;
}

/// A cancellation during a pending request is accepted, and executed when the request resolves (decision 16).
#[tokio::test]
async fn cancellation_during_a_transition_is_deferred() {
    let server = Server::start(20).await;
    for (request, status) in [("interrupt", "Interrupting"), ("pause", "Pausing"), ("resume", "Resuming")] {
        let ignore = json!({ "ignore": { "command": request, "untilRepeated": true } });
        let session =
            started(&server, &script(&[turn(&[ignore, say("Working."), json!({ "wait": 600_000 })])])).await;
        session.until_said("Working.").await;
        if request == "resume" {
            session.post("/pause", json!({})).await.expect(202);
            session.until_status("Paused").await;
        }
        let asked = session.post(&format!("/{request}"), json!({})).await.expect(202).body;
        assert_eq!(asked["status"], status);
        let accepted = session.post("/cancel", json!({})).await.expect(202).body;
        assert_eq!((&accepted["status"], &accepted["cancelAccepted"]), (&json!(status), &json!(true)));
        // A second cancel request changes nothing.
        session.post("/cancel", json!({})).await.expect(202);
        is_cancelled(&session).await;
    }
}

/// `force` does not wait for the agent: the process is stopped at once (decision 16).
#[tokio::test]
async fn forced_cancellation_kills_the_process_at_once() {
    let server = Server::start(1).await;
    let deaf = script(&[turn(&[
        json!({ "ignore": { "command": "stop" } }),
        json!({ "ignore": { "command": "pause" } }),
        say("Working."),
        json!({ "wait": 600_000 }),
    ])]);
    let session = started(&server, &deaf).await;
    session.until_said("Working.").await;
    let started = std::time::Instant::now();
    session.post("/cancel", json!({ "force": true })).await.expect(202);
    is_cancelled(&session).await;
    assert!(server.sidecars().is_empty());
    // Well before the deadline of the command, which is half a minute.
    assert!(started.elapsed() < std::time::Duration::from_secs(25));

    let pausing = Session::start(&server.api(), work(&server, &deaf)).await;
    pausing.until_said("Working.").await;
    pausing.post("/pause", json!({})).await.expect(202);
    pausing.post("/cancel", json!({ "force": true })).await.expect(202);
    is_cancelled(&pausing).await;
}
