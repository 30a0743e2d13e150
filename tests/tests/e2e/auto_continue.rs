//! Sessions that continue until their criteria are met (S0 8.5, 8.10; decision 36).

use std::path::PathBuf;

use pilothouse_tests::processes::{Sidecar, lives, written};
use pilothouse_tests::{PATIENCE, Session};
use serde_json::{Value, json};

use crate::scripts::{say, script, short, turn, with_output};
use crate::server::{Server, work};

/// A check that blocks until the file `go` exists.
const SLOW: &str = "echo $$ > checking; until [ -e go ]; do sleep 0.05; done";

/// A session with its own working directory that continues until `command` succeeds.
async fn looping(server: &Server, name: &str, plays: &Value, command: &str, max: u32) -> (Session, PathBuf) {
    let folder = server.work_folder().join(name);
    std::fs::create_dir(&folder).unwrap();
    let mut body = work(server, plays);
    body["workingDirectory"] = json!(folder);
    body["autoContinueConfig"] = json!({
        "validationCriteria": [{ "type": "TestsPassing", "customCommand": command }],
        "maxContinuations": max,
    });
    (Session::start(&server.api(), body).await, folder)
}

/// A session whose validation is running and blocked.
async fn validating(server: &Server, name: &str) -> (Session, PathBuf) {
    let (session, folder) = looping(server, name, &with_output(), SLOW, 5).await;
    let file = folder.join("checking");
    session.until("a validation", |v| v["validating"] == true && v["status"] == "Running").await;
    session.until_within(PATIENCE, "its process", async || written(&file)).await;
    (session, folder)
}

/// Waits until the validation processes in a folder have exited.
async fn until_unchecked(session: &Session, folder: &std::path::Path) {
    let file = folder.join("checking");
    let gone = async || (!lives(written(&file)?)).then_some(());
    session.until_within(PATIENCE, "the end of the validation processes", gone).await;
}

fn summaries(activity: &[Value], part: &str) -> usize {
    activity.iter().filter(|line| line["summary"].as_str().is_some_and(|s| s.contains(part))).count()
}

/// The check fails twice and then passes: the second and third turn start without the owner.
#[tokio::test]
async fn session_continues_until_its_criteria_are_met() {
    let server = Server::start(1).await;
    let third_time = "echo x >> tries; echo \"$(wc -l < tries) tries\"; [ $(wc -l < tries) -ge 3 ]";
    let (session, _) = looping(&server, "tests", &with_output(), third_time, 5).await;
    let view = session.until_status("Idle").await;
    assert_eq!(view["metrics"]["turnCount"], 3, "the session did not rest before");
    assert_eq!(view["autoContinueConfig"]["currentContinuationCount"], 2);
    assert_eq!((&view["validating"], &view["hasPendingReview"]), (&json!(false), &json!(true)));
    assert_eq!(view["output"]["filesChanged"], 2, "the output of the first turn is up for review now");
    let messages = session.messages().await;
    let system: Vec<_> = messages.iter().filter(|m| m["source"] == "System").collect();
    assert_eq!(system.len(), 2, "{messages:#?}");
    let message = system[0]["content"].as_str().unwrap();
    assert!(
        message.starts_with("Validation failed: TestsPassing: ")
            && message.ends_with("1 tries. Continue working."),
        "{message}"
    );
    let activity = session.activity().await;
    assert_eq!(summaries(&activity, "Validation failed, continuing ("), 2);
    assert_eq!(summaries(&activity, "Validation passed"), 1);
    assert_eq!(summaries(&activity, "Idle"), 1);
}

/// The session stops at its limit and notifies its owner; its output is not up for approval (S0 8.10). A retry resets the count.
#[tokio::test]
async fn auto_continue_stops_at_its_limit() {
    let server = Server::start(1).await;
    let (session, _) = looping(&server, "never", &with_output(), "echo broken; false", 2).await;
    let view = session.until_status("Idle").await;
    assert_eq!(view["metrics"]["turnCount"], 3);
    assert_eq!(view["autoContinueConfig"]["currentContinuationCount"], 2);
    assert_eq!(view["hasPendingReview"], false);
    assert_eq!(view["output"]["filesChanged"], 2, "the output is visible");
    let activity = session.activity().await;
    assert_eq!(summaries(&activity, "Auto-continue stopped: it continued 2 times already"), 1);
    let notified = async || {
        let all = server.api().all("/api/notifications").await;
        let stopped = all.into_iter().find(|one| one["kind"] == "auto-continue-stopped")?;
        stopped["text"].as_str().map(str::to_owned)
    };
    let text = session.until_within(PATIENCE, "the notification", notified).await;
    assert!(text.starts_with("Auto-continue stopped after 2 continuations: TestsPassing: "), "{text}");
    assert_eq!(session.post("/close", json!({})).await.expect(200).body["status"], "Completed");
}

/// A retry resets the count (S0, design notes).
#[tokio::test]
async fn a_retry_resets_the_count() {
    let server = Server::start(1).await;
    let mut plays = short();
    plays["onMessage"] = json!([{ "end": { "error": true, "reason": "gave_up" } }]);
    let (session, _) = looping(&server, "retried", &plays, "false", 1).await;
    let view = session.until_status("Failed").await;
    assert_eq!(view["autoContinueConfig"]["currentContinuationCount"], 1);
    let retried = session.post("/retry", json!({ "fresh": true })).await.expect(202).body;
    assert_eq!(retried["session"]["autoContinueConfig"]["currentContinuationCount"], 0);
    let view = session.until("the second failure", |v| v["status"] == "Failed" && v["retryCount"] == 1).await;
    assert_eq!(view["autoContinueConfig"]["currentContinuationCount"], 1, "the session continued once more");
}

/// Coverage is read from the output of the command.
#[tokio::test]
async fn coverage_must_reach_its_threshold() {
    let server = Server::start(1).await;
    let mut body = work(&server, &short());
    let criterion =
        |command: &str| json!({ "type": "CoverageThreshold", "customCommand": command, "threshold": "80" });
    body["autoContinueConfig"] = json!({
        "validationCriteria": [
            criterion("echo 'TOTAL 120 12 90%'"),
            criterion("echo x >> n; echo TOTAL $((60 + $(wc -l < n) * 15))%"),
        ],
    });
    let session = Session::start(&server.api(), body).await;
    let view = session.until_status("Idle").await;
    assert_eq!(
        (&view["metrics"]["turnCount"], &view["autoContinueConfig"]["maxContinuations"]),
        (&json!(2), &json!(5))
    );
    let messages = session.messages().await;
    let message = messages.iter().find(|m| m["source"] == "System").unwrap()["content"].as_str().unwrap();
    assert_eq!(
        message,
        "Validation failed: CoverageThreshold: coverage is 75%, below 80%. Continue working."
    );
}

/// A message of the owner takes precedence: it ends the running validation, which is repeated after the turn of the message.
#[tokio::test]
async fn owner_message_takes_precedence() {
    let server = Server::start(1).await;
    let (session, folder) = validating(&server, "first").await;
    let before = written(&folder.join("checking")).unwrap();
    session.post("/close", json!({})).await.refused(409, "invalid-transition");
    session.say("Me first", "Queued").await;
    session.until_said("You said: Me first").await;
    session.until("another validation", |v| v["validating"] == true).await;
    let gone = async || (!lives(before)).then_some(());
    session.until_within(PATIENCE, "the end of the first validation", gone).await;
    std::fs::write(folder.join("go"), "").unwrap();
    let view = session.until_status("Idle").await;
    assert_eq!(
        (&view["metrics"]["turnCount"], &view["autoContinueConfig"]["currentContinuationCount"]),
        (&json!(2), &json!(0))
    );
}

/// An interrupt or a cancellation ends the loop: the turn had ended (decision 17). No process remains.
#[tokio::test]
async fn stop_ends_the_validation() {
    let server = Server::start(1).await;
    let (interrupted, folder) = validating(&server, "interrupted").await;
    interrupted.post("/interrupt", json!({})).await.expect(202);
    let view = interrupted.until_status("Idle").await;
    assert_eq!((&view["metrics"]["turnCount"], &view["hasPendingReview"]), (&json!(1), &json!(true)));
    until_unchecked(&interrupted, &folder).await;

    let (paused, folder) = validating(&server, "paused").await;
    paused.post("/pause", json!({})).await.expect(202);
    paused.until_status("Paused").await;
    until_unchecked(&paused, &folder).await;
    std::fs::write(folder.join("go"), "").unwrap();
    paused.post("/resume", json!({})).await.expect(202);
    paused.until_status("Idle").await;

    let (cancelled, folder) = validating(&server, "cancelled").await;
    cancelled.post("/cancel", json!({})).await.expect(202);
    cancelled.until_status("Cancelled").await;
    until_unchecked(&cancelled, &folder).await;
}

/// A sidecar that dies during a validation does not fail the session, because the turn had ended. The processes of the validation
/// die with it, and the owner is notified.
#[tokio::test]
async fn sidecar_death_during_validation_is_harmless() {
    let server = Server::start(1).await;
    let (session, folder) = validating(&server, "died").await;
    server.sidecars().iter().for_each(Sidecar::kill9);
    let view = session.until("hibernation", |v| v["hibernated"] == true).await;
    assert_eq!((&view["status"], &view["hasPendingReview"]), (&json!("Idle"), &json!(true)));
    until_unchecked(&session, &folder).await;
    let activity = session.activity().await;
    assert_eq!(
        summaries(&activity, "Auto-continue stopped: its criteria could not be checked"),
        1,
        "{activity:#?}"
    );
    session.say("Are you there?", "Queued").await;
    session.until_said("You said: Are you there?").await;
}

/// An agent that exits after its turn is validated, too. A new run continues its conversation.
#[tokio::test]
async fn ended_agent_continues_in_a_new_run() {
    let server = Server::start(1).await;
    let plays = script(&[turn(&[say("Bye.")]), json!({ "end": {} })]);
    let command = "[ -e tried ] || { touch tried; false; }";
    let (session, _) = looping(&server, "ended", &plays, command, 5).await;
    let over = |v: &Value| v["status"] == "Idle" && v["metrics"]["turnCount"] == 2;
    let view = session.until("the second turn", over).await;
    assert_eq!((&view["currentRun"]["ordinal"], &view["failureReason"]), (&json!(2), &Value::Null));
}
