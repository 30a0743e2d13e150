//! Sessions that hibernate when idle, and the commands that wake them (decision 22).

use pilothouse_tests::processes::lives;
use pilothouse_tests::{PATIENCE, Session};
use serde_json::{Value, json};

use crate::scripts::{endless, say, script, short, turn, works_until_message};
use crate::server::{Server, work};

/// A session that hibernates after a second.
async fn sleepy(server: &Server, plays: &Value) -> Session {
    let mut body = work(server, plays);
    body["idleTimeoutSeconds"] = json!(1);
    body["pausedTimeoutSeconds"] = json!(1);
    Session::start(&server.api(), body).await
}

/// Waits until the session has hibernated in this status: without a process and a slot.
async fn asleep(server: &Server, session: &Session, status: &str) {
    let view = session.until("hibernation", |v| v["hibernated"] == true).await;
    assert_eq!((&view["status"], &view["currentRun"]), (&json!(status), &Value::Null));
    let free = async || {
        let leases = server.api().get("/api/agents/pool").await.expect(200).body["leases"].clone();
        let held = leases.as_array().unwrap().iter().any(|l| l["sessionId"] == json!(session.id));
        (!held && server.sidecars().is_empty()).then_some(())
    };
    session.until_within(PATIENCE, "no process and no slot", free).await;
}

#[tokio::test]
async fn idle_session_hibernates_and_a_message_wakes_it() {
    let server = Server::start(1).await;
    let session = sleepy(&server, &short()).await;
    session.until_status("Idle").await;
    let pids: Vec<_> = server.sidecars().iter().map(|sidecar| sidecar.pid).collect();
    asleep(&server, &session, "Idle").await;
    assert!(pids.iter().all(|pid| !lives(*pid)));
    let activity = session.activity().await;
    assert!(
        activity.iter().any(|l| l["summary"] == "Hibernates after 1 seconds without activity"),
        "{activity:#?}"
    );
    session.say("Are you there?", "Queued").await;
    let view = session.until("the second turn", |v| v["metrics"]["turnCount"] == 2).await;
    assert_eq!(view["failureReason"], Value::Null);
    assert_eq!(session.said().await, ["Done.", "You said: Are you there?"]);
    // The session hibernates again.
    asleep(&server, &session, "Idle").await;
    assert_eq!(session.post("/close", json!({})).await.expect(200).body["status"], "Completed");
}

#[tokio::test]
async fn paused_session_hibernates_and_a_resume_wakes_it() {
    let server = Server::start(1).await;
    let session = sleepy(&server, &works_until_message()).await;
    session.until_said("Working.").await;
    session.post("/pause", json!({})).await.expect(202);
    asleep(&server, &session, "Paused").await;
    session.post("/resume", json!({})).await.expect(202);
    let view = session.until("a turn of the next run", |v| v["currentTurn"]["id"] == "turn-1-2").await;
    assert_eq!((&view["status"], &view["hibernated"]), (&json!("Running"), &json!(false)));
    assert_eq!(view["currentRun"]["ordinal"], 2);
    // The agent goes on where it was.
    session.say("And now?", "Immediate").await;
    session.until_said("Told: And now?").await;
}

/// A session that waits for an answer hibernates, too; the answer is sent as a message (decision 26). So does an interrupted one.
#[tokio::test]
async fn waiting_session_hibernates_and_its_answer_wakes_it() {
    let server = Server::start(1).await;
    let ask = json!({ "question": { "id": "q1", "questions": [{ "question": "Which?" }] } });
    let session = sleepy(&server, &script(&[turn(&[ask, say("Thanks.")])])).await;
    session.until_status("WaitingForInput").await;
    asleep(&server, &session, "WaitingForInput").await;
    let answers = json!({ "requestId": "q1", "answers": [{ "question": "Which?", "answer": "Left" }] });
    session.post("/answer", answers).await.expect(200);
    session.until_said("Thanks.").await;

    let interrupted = sleepy(&server, &endless()).await;
    interrupted.until_said("Working.").await;
    interrupted.post("/interrupt", json!({})).await.expect(202);
    let view = interrupted.until("hibernation", |v| v["hibernated"] == true).await;
    assert_eq!(view["status"], "Interrupted");
}
