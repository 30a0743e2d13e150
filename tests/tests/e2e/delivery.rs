//! Commands and events that are late, duplicated, lost, reordered or malformed (decisions 9 to 15).

use pilothouse_tests::{PATIENCE, Session};
use serde_json::{Value, json};

use crate::scripts::{endless, say, script, turn};
use crate::server::{Server, started};

/// One or two seconds: long for a busy machine, short for a test.
const DEADLINE_DIVISOR: u32 = 20;

/// A script that arms this fault and then works without end.
fn faulty(fault: Value) -> Value {
    script(&[turn(&[fault, say("Working."), json!({ "wait": 600_000 })])])
}

async fn working(server: &Server, fault: Value) -> Session {
    let session = started(server, &faulty(fault)).await;
    session.until_said("Working.").await;
    session
}

fn count(activity: &[Value], summary: &str) -> usize {
    activity.iter().filter(|line| line["summary"] == summary).count()
}

fn has(activity: &[Value], part: &str) -> bool {
    activity.iter().any(|line| line["summary"].as_str().is_some_and(|s| s.contains(part)))
}

async fn until_no_process(server: &Server, session: &Session) {
    let gone = async || server.sidecars().is_empty().then_some(());
    session.until_within(PATIENCE, "the end of the process", gone).await;
}

/// A lost command is resent, and the same process executes it.
#[tokio::test]
async fn lost_command_is_resent() {
    let server = Server::start(DEADLINE_DIVISOR).await;
    let session = working(&server, json!({ "ignore": { "command": "pause", "untilRepeated": true } })).await;
    session.post("/pause", json!({})).await.expect(202);
    let view = session.until_status("Paused").await;
    assert_eq!(view["hibernated"], false);
    assert_eq!(view["currentRun"]["ordinal"], 1);
    assert_eq!(server.sidecars().len(), 1);
    session.post("/resume", json!({})).await.expect(202);
    session.until_status("Running").await;
}

/// An unacknowledged interrupt is enforced by stopping the process; the next message wakes the session.
#[tokio::test]
async fn unacknowledged_interrupt_is_enforced_by_the_runtime() {
    let server = Server::start(DEADLINE_DIVISOR).await;
    let session = working(&server, json!({ "ignore": { "command": "interrupt" } })).await;
    session.post("/interrupt", json!({})).await.expect(202);
    let view = session.until_status("Interrupted").await;
    assert_eq!(view["hibernated"], true);
    until_no_process(&server, &session).await;
    session.say("Let us go on.", "Queued").await;
    let heard = |all: &[Value]| all.iter().any(|m| m["source"] == "User" && m["content"] == "Let us go on.");
    session.until_messages("the message", heard).await;
    let view = session.until_status("Running").await;
    assert_eq!((&view["currentRun"]["ordinal"], &view["hibernated"]), (&json!(2), &json!(false)));
}

/// An unacknowledged pause is enforced the same way; the resume wakes the session.
#[tokio::test]
async fn unacknowledged_pause_is_enforced_by_the_runtime() {
    let server = Server::start(DEADLINE_DIVISOR).await;
    let session = working(&server, json!({ "ignore": { "command": "pause" } })).await;
    session.post("/pause", json!({})).await.expect(202);
    let view = session.until_status("Paused").await;
    assert_eq!(view["hibernated"], true);
    until_no_process(&server, &session).await;
    session.post("/resume", json!({})).await.expect(202);
    let view =
        session.until("a new run", |v| v["status"] == "Running" && v["currentRun"]["ordinal"] == 2).await;
    assert_eq!(view["hibernated"], false);
}

/// An unacknowledged resume leaves the session suspended without a process (decision 12).
#[tokio::test]
async fn unacknowledged_resume_leaves_the_session_paused() {
    let server = Server::start(DEADLINE_DIVISOR).await;
    let session = working(&server, json!({ "ignore": { "command": "resume" } })).await;
    session.post("/pause", json!({})).await.expect(202);
    session.until_status("Paused").await;
    session.post("/resume", json!({})).await.expect(202);
    let view =
        session.until("the end of the wait", |v| v["status"] == "Paused" && v["hibernated"] == true).await;
    assert_eq!(view["failureReason"], Value::Null);
    until_no_process(&server, &session).await;
}

/// An unacknowledged stop cancels the session and ends its process (decision 15).
#[tokio::test]
async fn unacknowledged_stop_is_enforced_by_the_runtime() {
    let server = Server::start(DEADLINE_DIVISOR).await;
    let session = working(&server, json!({ "ignore": { "command": "stop" } })).await;
    session.post("/cancel", json!({})).await.expect(202);
    session.until_status("Cancelled").await;
    until_no_process(&server, &session).await;
}

/// A late acknowledgement arrives twice, because the command was resent; it counts once.
#[tokio::test]
async fn late_and_duplicate_acknowledgements_count_once() {
    let server = Server::start(DEADLINE_DIVISOR).await;
    // Longer than the deadline of `received` (1.5 s), shorter than that of the second attempt.
    let lines: Vec<Value> =
        (0..400).flat_map(|n| [say(&format!("line {n}")), json!({ "wait": 10 })]).collect();
    let mut steps = vec![say("Working."), json!({ "silence": 2200 })];
    steps.extend(lines);
    let session = started(&server, &script(&[turn(&steps)])).await;
    session.until_said("Working.").await;
    session.post("/pause", json!({})).await.expect(202);
    let view = session.until_status("Paused").await;
    assert_eq!(view["hibernated"], false, "the process lives");
    session.post("/resume", json!({})).await.expect(202);
    session.until_status("Running").await;
    session.post("/interrupt", json!({})).await.expect(202);
    session.until_status("Interrupted").await;
    let activity = session.activity().await;
    for once in ["Pausing", "Paused", "Resuming", "Running: resumed", "Interrupting", "Interrupted"] {
        assert_eq!(count(&activity, once), 1, "{once}\n{}", session.everything().await);
    }
}

/// Acknowledgements of unknown commands confirm nothing (decision 11).
#[tokio::test]
async fn stale_acknowledgements_change_no_status() {
    let server = Server::start(DEADLINE_DIVISOR).await;
    let ack = |kind: &str, n: u8| json!({ "raw": { "type": kind, "commandId": format!("01900000-0000-7000-8000-0000000000{n:02}"), "step": "done" } });
    let mut steps = vec![json!({ "ignore": { "command": "pause", "untilRepeated": true } }), say("Working.")];
    for n in 10..50 {
        steps.extend([
            ack("pause_ack", n),
            ack("interrupt_ack", n),
            ack("stop_ack", n),
            json!({ "wait": 40 }),
        ]);
    }
    steps.extend([say("All told."), json!({ "wait": 600_000 })]);
    let session = started(&server, &script(&[turn(&steps)])).await;
    session.until_said("Working.").await;
    session.post("/pause", json!({})).await.expect(202);
    session.until_status("Paused").await;
    // The acknowledgement of the second attempt confirmed the pause.
    let activity = session.activity().await;
    let at = |summary: &str| activity.iter().position(|line| line["summary"] == summary).unwrap();
    let again = activity
        .iter()
        .position(|line| line["summary"].as_str().is_some_and(|s| s.contains("is sent once more")));
    let again = again.unwrap_or_else(|| panic!("no second attempt in {activity:#?}"));
    assert!(at("Pausing") < again && again < at("Paused"));
    assert_eq!((count(&activity, "Interrupted"), count(&activity, "Cancelled")), (0, 0));
    session.post("/resume", json!({})).await.expect(202);
    session.until_said("All told.").await;
    session.until_status("Running").await;
}

/// An agent that continues after it acknowledged a stop is detected, and its process is ended (decision 15).
#[tokio::test]
async fn activity_after_a_stop_is_flagged_and_ends_the_process() {
    let server = Server::start(1).await;
    for (command, status) in [("pause", "Paused"), ("interrupt", "Interrupted")] {
        let steps = [say("still"), say("here")];
        let session = working(&server, json!({ "afterStop": { "command": command, "steps": steps } })).await;
        session.post(&format!("/{command}"), json!({})).await.expect(202);
        let view = session.until("the end of the process", |v| v["hibernated"] == true).await;
        assert_eq!(view["status"], status);
        until_no_process(&server, &session).await;
        assert_eq!(session.said().await, ["Working.", "still", "here"], "the messages are kept");
        let activity = session.activity().await;
        let notices = activity.iter().filter(|line| {
            line["type"] == "Notice"
                && line["summary"].as_str().is_some_and(|s| s.contains("acted after it had been stopped"))
        });
        assert_eq!(notices.count(), 2, "{activity:#?}");
    }
}

#[tokio::test]
async fn duplicate_and_reordered_envelopes_apply_once_in_order() {
    let server = Server::start(1).await;
    let session = started(
        &server,
        &script(&[turn(&[
            say("one"),
            json!({ "duplicate": say("two") }),
            json!({ "reorder": [say("three"), say("four")] }),
            json!({ "duplicate": say("five") }),
            say("six"),
        ])]),
    )
    .await;
    session.until_status("Idle").await;
    assert_eq!(session.said().await, ["one", "two", "three", "four", "five", "six"]);
}

/// A missing envelope is requested and applied in its place (decision 9).
#[tokio::test]
async fn a_gap_is_filled_by_a_replay() {
    let server = Server::start(DEADLINE_DIVISOR).await;
    let session = started(
        &server,
        &script(&[turn(&[say("one"), json!({ "gap": { "step": say("two") } }), say("three")])]),
    )
    .await;
    session.until_status("Idle").await;
    assert_eq!(session.said().await, ["one", "two", "three"]);
    assert!(!has(&session.activity().await, "lost"));
}

/// A missing envelope is abandoned after three requests. The owner is notified, and later events are applied (decision 9).
#[tokio::test]
async fn unfillable_gap_is_shown_as_lost() {
    let server = Server::start(DEADLINE_DIVISOR).await;
    let gap = json!({ "gap": { "step": say("two"), "forever": true } });
    let session = started(&server, &script(&[turn(&[say("one"), gap, say("three")])])).await;
    session.until_status("Idle").await;
    assert_eq!(session.said().await, ["one", "three"]);
    let activity = session.activity().await;
    let lost: Vec<_> =
        activity.iter().filter(|l| l["summary"].as_str().is_some_and(|s| s.contains("lost"))).collect();
    assert_eq!(lost.len(), 1, "{activity:#?}");
    assert_eq!(lost[0]["type"], "Notice");
}

/// A malformed event is quarantined with its error and blocks nothing (decision 9).
#[tokio::test]
async fn a_malformed_event_is_quarantined_and_blocks_nothing() {
    let server = Server::start(1).await;
    let session = started(
        &server,
        &script(&[turn(&[
            say("one"),
            json!({ "malformed": { "type": "no_such_event", "x": 1 } }),
            json!({ "malformed": { "type": "tool_result" } }),
            json!({ "malformed": 7 }),
            say("two"),
        ])]),
    )
    .await;
    session.until_status("Idle").await;
    assert_eq!(session.said().await, ["one", "two"]);
    let activity = session.activity().await;
    let notices = activity.iter().filter(|l| {
        l["type"] == "Notice" && l["summary"].as_str().is_some_and(|s| s.contains("could not be read"))
    });
    assert_eq!(notices.count(), 3, "{activity:#?}");
}

/// An event that nearly fits its schema counts, and its record names the rules (S2, "Event validation pipeline").
#[tokio::test]
async fn repairable_event_counts_and_names_its_rules() {
    let server = Server::start(1).await;
    let tasks = json!({ "id": 1, "subject": "Test", "status": "Pending" });
    let session = started(
        &server,
        &script(&[turn(&[json!({ "malformed": { "type": "taskList", "tasks": tasks } }), say("two")])]),
    )
    .await;
    session.until_status("Idle").await;
    let listed = session.api.get(&session.path("/task-list")).await.expect(200).body["tasks"].clone();
    assert_eq!(listed[0]["subject"], "Test", "{listed:#}");
    let path = format!("/api/agents/sessions/{}/events", session.id);
    let events = session.api.all(&path).await;
    let repaired: Vec<_> = events.iter().filter(|event| event["outcome"] == "repaired").collect();
    assert_eq!(repaired.len(), 1, "{events:#?}");
    assert_eq!(repaired[0]["repairs"], json!(["type_name", "text_field", "list_field"]));
    assert_eq!(repaired[0]["eventType"], "task_list");
}

/// A live but silent sidecar becomes unreachable first, and is stopped after a deadline (decisions 13, 15).
#[tokio::test]
async fn silent_sidecar_is_stopped() {
    let server = Server::start(DEADLINE_DIVISOR).await;
    let session = started(&server, &endless()).await;
    session.until_said("Working.").await;
    let sidecar = server.sidecars().remove(0);
    sidecar.freeze();
    let view = session.until("being unreachable", |view| view["unreachable"] == true).await;
    assert_eq!(view["status"], "Running");
    // The deadline is half a minute here, and restarts after each second in which a busy machine delayed the clock.
    let view = session
        .until_within(PATIENCE * 3, "being failed", async || {
            let view = session.view().await;
            (view["status"] == "Failed").then_some(view)
        })
        .await;
    assert_eq!(view["failureReason"]["reason"], "InfrastructureError");
    until_no_process(&server, &session).await;
}

/// The server is killed while a session works. The agent continues, and its events arrive afterwards.
#[tokio::test]
async fn killed_server_adopts_its_sidecars_after_a_restart() {
    let mut server = Server::start(1).await;
    let lines: Vec<Value> =
        (0..100).flat_map(|n| [say(&format!("line {n}")), json!({ "wait": 10 })]).collect();
    let session = started(&server, &script(&[turn(&lines)])).await;
    session.until_said("line 5").await;
    server.kill9();
    server.restart().await;
    session.until_status("Idle").await;
    let all: Vec<_> = (0..100).map(|n| format!("line {n}")).collect();
    assert_eq!(session.said().await, all);
    assert_eq!(session.view().await["currentRun"]["ordinal"], 1);
    session.say("Still there?", "Queued").await;
    session.until_said("You said: Still there?").await;
}
