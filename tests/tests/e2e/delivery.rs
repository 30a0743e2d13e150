//! Commands and events that come late, twice, never, out of order or broken (rulings 9 to 15).

use pilothouse_tests::{PATIENCE, Session};
use serde_json::{Value, json};

use crate::scripts::{endless, say, script, turn};
use crate::server::{Server, started};

/// Deadlines of a second or two: long for a busy machine, short for a test.
const HURRY: u32 = 20;

/// A script whose agent works without end, and has this fault armed before.
fn faulty(fault: Value) -> Value {
    script(&[turn(&[fault, say("Working."), json!({ "wait": 600_000 })])])
}

/// A session that works, with a fault armed.
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

/// Once no sidecar is alive.
async fn until_no_process(server: &Server, session: &Session) {
    let gone = async || server.sidecars().is_empty().then_some(());
    session.until_within(PATIENCE, "the end of the process", gone).await;
}

/// A command that got lost goes out once more, and is then carried out by a process that lives on.
#[tokio::test]
async fn a_lost_command_is_sent_once_more() {
    let server = Server::start(HURRY).await;
    let session = working(&server, json!({ "ignore": { "command": "pause", "untilRepeated": true } })).await;
    session.post("/pause", json!({})).await.expect(202);
    let view = session.until_status("Paused").await;
    assert_eq!(view["hibernated"], false);
    assert_eq!(view["currentRun"]["ordinal"], 1);
    assert_eq!(server.sidecars().len(), 1);
    session.post("/resume", json!({})).await.expect(202);
    session.until_status("Running").await;
}

/// An interrupt that is never acknowledged is fulfilled by stopping the process; the next message wakes the session.
#[tokio::test]
async fn an_interrupt_that_is_never_acknowledged_is_fulfilled_by_the_runtime() {
    let server = Server::start(HURRY).await;
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

/// The same for a pause; the resume wakes the session.
#[tokio::test]
async fn a_pause_that_is_never_acknowledged_is_fulfilled_by_the_runtime() {
    let server = Server::start(HURRY).await;
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

/// A resume that is never acknowledged leaves the session suspended, without a process (ruling 12).
#[tokio::test]
async fn a_resume_that_is_never_acknowledged_leaves_the_session_paused() {
    let server = Server::start(HURRY).await;
    let session = working(&server, json!({ "ignore": { "command": "resume" } })).await;
    session.post("/pause", json!({})).await.expect(202);
    session.until_status("Paused").await;
    session.post("/resume", json!({})).await.expect(202);
    let view =
        session.until("the end of the wait", |v| v["status"] == "Paused" && v["hibernated"] == true).await;
    assert_eq!(view["failureReason"], Value::Null);
    until_no_process(&server, &session).await;
}

/// A stop that is never acknowledged: the session is cancelled, and its process is gone (ruling 15).
#[tokio::test]
async fn a_stop_that_is_never_acknowledged_is_fulfilled_by_the_runtime() {
    let server = Server::start(HURRY).await;
    let session = working(&server, json!({ "ignore": { "command": "stop" } })).await;
    session.post("/cancel", json!({})).await.expect(202);
    session.until_status("Cancelled").await;
    until_no_process(&server, &session).await;
}

/// Acknowledgements that come late come doubled, as the command was sent again meanwhile: they count once.
#[tokio::test]
async fn late_and_doubled_acknowledgements_count_once() {
    let server = Server::start(HURRY).await;
    // Longer than the time for `received` (1.5 s), shorter than that of the second attempt.
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

/// Acknowledgements of commands that nobody sent confirm nothing (ruling 11).
#[tokio::test]
async fn stale_acknowledgements_change_no_status() {
    let server = Server::start(HURRY).await;
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
    // The pause was confirmed by its own acknowledgement, which only followed the second attempt.
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

/// An agent that goes on after it said that it stopped is found out, and its process is ended (ruling 15).
#[tokio::test]
async fn activity_after_a_stop_is_kept_and_flagged_and_ends_the_process() {
    let server = Server::start(1).await;
    for (command, status) in [("pause", "Paused"), ("interrupt", "Interrupted")] {
        let steps = [say("still"), say("here")];
        let session = working(&server, json!({ "afterStop": { "command": command, "steps": steps } })).await;
        session.post(&format!("/{command}"), json!({})).await.expect(202);
        let view = session.until("the end of the process", |v| v["hibernated"] == true).await;
        assert_eq!(view["status"], status);
        until_no_process(&server, &session).await;
        assert_eq!(session.said().await, ["Working.", "still", "here"], "it is kept");
        let activity = session.activity().await;
        let told = activity.iter().filter(|line| {
            line["type"] == "Notice" && line["summary"].as_str().is_some_and(|s| s.contains("yet there was"))
        });
        assert_eq!(told.count(), 2, "{activity:#?}");
    }
}

/// Envelopes that come twice or in the wrong order are applied once, in order.
#[tokio::test]
async fn doubled_and_reordered_envelopes_are_applied_once_and_in_order() {
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

/// A missing envelope is asked for, and takes its place (ruling 9).
#[tokio::test]
async fn a_gap_is_filled_by_a_replay() {
    let server = Server::start(HURRY).await;
    let session = started(
        &server,
        &script(&[turn(&[say("one"), json!({ "gap": { "step": say("two") } }), say("three")])]),
    )
    .await;
    session.until_status("Idle").await;
    assert_eq!(session.said().await, ["one", "two", "three"]);
    assert!(!has(&session.activity().await, "lost"));
}

/// What cannot be had is given up after three requests, the owner is told, and what follows is applied (ruling 9).
#[tokio::test]
async fn a_gap_that_cannot_be_filled_is_shown_as_lost() {
    let server = Server::start(HURRY).await;
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

/// What cannot be read is set aside with what is wrong with it, and blocks nothing (ruling 9).
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
    let told = activity.iter().filter(|l| {
        l["type"] == "Notice" && l["summary"].as_str().is_some_and(|s| s.contains("could not be read"))
    });
    assert_eq!(told.count(), 3, "{activity:#?}");
}

/// A sidecar that is alive but cannot be heard counts as dead after its time, and is not left alive (rulings 13, 15).
#[tokio::test]
async fn a_sidecar_that_is_not_heard_of_counts_as_dead() {
    let server = Server::start(HURRY).await;
    let session = started(&server, &endless()).await;
    session.until_said("Working.").await;
    let sidecar = server.sidecars().remove(0);
    sidecar.freeze();
    let view = session.until_status("Failed").await;
    assert_eq!(view["failureReason"]["reason"], "InfrastructureError");
    until_no_process(&server, &session).await;
}

/// The server is killed while a session works: the agent goes on, and what it told meanwhile is there afterwards.
#[tokio::test]
async fn a_server_that_was_killed_takes_its_sidecars_over() {
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
