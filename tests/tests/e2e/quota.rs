//! Exhausted plans, and outcomes of turns (S4, decision 39).

use std::time::Duration;

use pilothouse_domain::Timestamp;
use pilothouse_tests::{PATIENCE, Session};
use serde_json::{Value, json};

use crate::scripts::{say, script, turn};
use crate::server::{Server, started, work};

/// An agent with an exhausted plan, which continues when it is resumed.
fn used_up(reset_at: Option<Timestamp>) -> Value {
    let mut event = json!({ "type": "quota_exceeded", "message": "5-hour limit reached" });
    if let Some(at) = reset_at {
        event["resetAt"] = json!(at);
    }
    script(&[turn(&[
        say("Begun."),
        json!({ "raw": event }),
        json!({ "waitForCommand": "resume" }),
        say("On."),
    ])])
}

fn soon(seconds: u64) -> Timestamp {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Timestamp::from_millis(i64::try_from(now.as_millis()).unwrap()) + Duration::from_secs(seconds)
}

/// The session pauses, shows the reason and the reset time, and continues at that time in the same turn.
#[tokio::test]
async fn session_continues_when_its_quota_resets() {
    let server = Server::start(20).await;
    let reset_at = soon(4);
    let session = started(&server, &used_up(Some(reset_at))).await;
    let view = session.until_status("Paused").await;
    assert_eq!(view["pausedReason"], "quota-exceeded");
    assert_eq!(view["quota"], json!({ "message": "5-hour limit reached", "resetAt": reset_at }));
    let notified = async || {
        let all = server.api().all("/api/notifications").await;
        all.into_iter().find(|n| n["kind"] == "quota-exceeded")
    };
    let notification = session.until_within(PATIENCE, "the notification", notified).await;
    assert!(notification["text"].as_str().unwrap().contains("5-hour limit reached"), "{notification}");
    session.until_said("On.").await;
    let view = session.until_status("Idle").await;
    assert_eq!((&view["quota"], &view["pausedReason"]), (&Value::Null, &Value::Null));
    assert_eq!(view["metrics"]["turnCount"], 1);
    let activity = session.activity().await;
    assert!(activity.iter().any(|l| l["summary"] == "The quota can be used again"), "{activity:#?}");
}

#[tokio::test]
async fn hibernated_session_wakes_at_the_quota_reset() {
    let server = Server::start(20).await;
    let mut body = work(&server, &used_up(Some(soon(8))));
    body["pausedTimeoutSeconds"] = json!(1);
    let session = Session::start(&server.api(), body).await;
    session.until("hibernation", |v| v["hibernated"] == true && v["status"] == "Paused").await;
    let view = session.until("the second run", |v| v["currentRun"]["ordinal"] == 2).await;
    assert_ne!(view["status"], "Failed");
    session.until("the end of the pause", |v| v["status"] != "Paused" && v["status"] != "Resuming").await;
    let activity = session.activity().await;
    assert!(activity.iter().any(|l| l["summary"] == "Running: resumed"), "{activity:#?}");
}

#[tokio::test]
async fn without_a_reset_time_its_owner_resumes() {
    let server = Server::start(1).await;
    let session = started(&server, &used_up(None)).await;
    let view = session.until_status("Paused").await;
    assert_eq!(view["quota"], json!({ "message": "5-hour limit reached" }));
    session.post("/resume", json!({})).await.expect(202);
    session.until_said("On.").await;
}

#[tokio::test]
async fn turn_outcome_is_shown() {
    let server = Server::start(1).await;
    let ends = |outcome: &str| {
        let begun = json!({ "raw": { "type": "turn_started", "turnId": "t1" } });
        let ended = json!({ "raw": { "type": "turn_completed", "turnId": "t1", "outcome": outcome } });
        script(&[begun, say("Begun."), ended])
    };
    let session = started(&server, &ends("max_iterations")).await;
    let view = session.until_status("Idle").await;
    assert_eq!(view["lastOutcome"], "max_iterations");
    let activity = session.activity().await;
    let summary = "Idle: turn 1 is over, at the limit of its iterations";
    assert!(activity.iter().any(|l| l["summary"] == summary), "{activity:#?}");

    let session = started(&server, &ends("execution_error")).await;
    let view = session.until_status("Failed").await;
    assert_eq!(
        (&view["failureReason"]["reason"], &view["lastOutcome"]),
        (&json!("AgentError"), &json!("execution_error"))
    );

    // The outcome reported by the agent does not pause the session: only the spend exhausts a budget (decision 32).
    let session = started(&server, &ends("budget_exceeded")).await;
    let view = session.until_status("Idle").await;
    assert_eq!(
        (&view["budget"]["exhausted"], &view["lastOutcome"]),
        (&json!(false), &json!("budget_exceeded"))
    );
    session.say("More, please.", "Queued").await;
    session.until_said("You said: More, please.").await;

    let session = started(&server, &ends("quota_exceeded")).await;
    let view = session.until_status("Idle").await;
    assert_eq!((&view["lastOutcome"], &view["quota"]), (&json!("quota_exceeded"), &Value::Null));
}
