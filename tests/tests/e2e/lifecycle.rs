//! The lifecycle of a session (S0 8.10).

use pilothouse_tests::Session;
use serde_json::{Value, json};

use crate::notifications::until_published;
use crate::scripts::{endless, say, script, short, turn, with_output};
use crate::server::{Server, started};

async fn until_nothing_runs(server: &Server, session: &Session) {
    let gone = async || server.sidecars().is_empty().then_some(());
    session.until_within(pilothouse_tests::PATIENCE, "the end of the sidecars", gone).await;
}

fn summaries(activity: &[Value]) -> Vec<&str> {
    activity.iter().filter_map(|line| line["summary"].as_str()).collect()
}

/// After start, turn, output and approval, the sidecar and its slot are gone.
#[tokio::test]
async fn a_session_runs_and_its_output_is_approved() {
    let server = Server::start(1).await;
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let mut plays = with_output();
    plays["steps"][0]["turn"]["output"]["commitSha"] = json!(commit);
    let session = started(&server, &plays).await;
    assert_eq!(session.started["session"]["status"], "Queued");
    assert_eq!(session.started["session"]["queuedReason"], "launching");
    assert!(session.started.get("pool").is_none(), "the session did not wait for a slot");

    let view = session.until("output", |view| view["hasPendingReview"] == true).await;
    assert_eq!(view["status"], "Idle");
    let output = &view["output"];
    assert_eq!((&output["filesChanged"], &output["commitSha"]), (&json!(2), &json!(commit)), "{output}");
    assert_eq!(view["metrics"]["turnCount"], 1);
    assert_eq!(session.said().await, ["Done."]);
    let id = output["outputId"].as_str().unwrap_or_else(|| panic!("an output has an id: {output}"));

    session.post("/close", json!({})).await.refused(409, "review-pending");
    let other = "01900000-0000-7000-8000-000000000000";
    session.post("/approve", json!({ "outputId": other })).await.refused(409, "output-changed");
    let view = session.post("/approve", json!({ "outputId": id })).await.expect(200).body;
    assert_eq!(view["status"], "Completed");
    assert!(view["completedAt"].is_string());

    let body = json!({ "content": "One more thing", "priority": "Immediate" });
    session.post("/messages/queue", body).await.refused(409, "invalid-transition");
    session.post("/cancel", json!({})).await.refused(409, "invalid-transition");
    session.post("/retry", json!({})).await.refused(409, "invalid-transition");
    until_nothing_runs(&server, &session).await;
    let free = async || (server.api().get("/api/agents/pool").await.body["activeCount"] == 0).then_some(());
    session.until_within(pilothouse_tests::PATIENCE, "a free slot", free).await;
    let history = server.api().get("/api/agents/sessions/history").await.expect(200).body;
    assert_eq!(history["items"][0]["outcome"], "approved");
}

/// A rejection fails the session; a retry resumes the conversation and starts with the instruction (decision 24).
#[tokio::test]
async fn rejected_session_is_retried_with_the_instruction_first() {
    let server = Server::start(1).await;
    let session = started(&server, &with_output()).await;
    let view = session.until("output", |view| view["hasPendingReview"] == true).await;
    let output = view["output"]["outputId"].clone();
    let rejected =
        session.post("/reject", json!({ "outputId": output, "reason": "No test for the error" })).await;
    let view = rejected.expect(200).body;
    assert_eq!(view["status"], "Failed");
    assert_eq!(view["failureReason"]["reason"], "VerificationFailed", "{view}");
    assert_eq!(view["output"]["outputId"], output, "the rejected output can still be read");
    let body = json!({ "content": "Do you hear me?" });
    session.post("/messages/queue", body).await.refused(409, "invalid-transition");

    let retried =
        session.post("/retry", json!({ "additionalInstruction": "Add the missing test" })).await.expect(202);
    assert_eq!(retried.body["session"]["status"], "Queued");
    assert_eq!(retried.body["session"]["retryCount"], 1);
    assert!(retried.body["session"]["completedAt"].is_null());
    assert!(retried.body["session"]["failureReason"].is_null());
    assert!(retried.body["session"]["output"].is_null());
    assert_eq!(retried.body["session"]["hasPendingReview"], false);
    assert_ne!(retried.body["apiKey"].as_str().unwrap(), session.api_key(), "a retry replaces the key");

    let view = session.until("the second turn", |view| view["metrics"]["turnCount"] == 2).await;
    assert_eq!(view["status"], "Idle");
    assert_eq!(view["currentRun"]["ordinal"], 2);
    // The steps are not repeated: the same conversation receives the instruction.
    assert_eq!(session.said().await, ["Done.", "You said: Add the missing test"]);
}

/// With `fresh` the agent starts a new conversation; the spend is kept (decision 24).
#[tokio::test]
async fn fresh_retry_starts_a_new_conversation_and_keeps_the_spend() {
    let server = Server::start(1).await;
    let usage = json!({ "usage": { "costUsd": "0.25", "tokens": { "inputTokens": 100 } } });
    let session = started(
        &server,
        &script(&[turn(&[say("Begun."), usage, json!({ "end": { "error": true, "reason": "gave_up" } })])]),
    )
    .await;
    let view = session.until_status("Failed").await;
    assert_eq!(view["failureReason"]["reason"], "AgentError");
    assert_eq!(view["budget"]["estimatedCostUsd"], "0.25");
    session.post("/retry", json!({ "fresh": true })).await.expect(202);
    let view = session.until("the second failure", |v| v["status"] == "Failed" && v["retryCount"] == 1).await;
    assert_eq!(session.said().await, ["Begun.", "Begun."]);
    assert_eq!(view["budget"]["estimatedCostUsd"], "0.5");
}

#[tokio::test]
async fn an_idle_session_without_output_is_closed() {
    let server = Server::start(1).await;
    let session = started(&server, &short()).await;
    session.until_status("Idle").await;
    let nothing = json!({ "outputId": "01900000-0000-7000-8000-000000000000" });
    session.post("/approve", nothing).await.refused(409, "nothing-to-review");
    session.post("/resume", json!({})).await.refused(409, "invalid-transition");
    session.post("/pause", json!({})).await.refused(409, "invalid-transition");
    session.post("/interrupt", json!({})).await.refused(409, "invalid-transition");
    assert_eq!(session.post("/close", json!({})).await.expect(200).body["status"], "Completed");
    session.post("/close", json!({})).await.refused(409, "invalid-transition");
    until_nothing_runs(&server, &session).await;
    assert!(session.view().await["chainId"].is_null());
    assert_eq!(server.api().all("/api/agents/chains").await, [] as [Value; 0]);
}

/// A paused session emits nothing and loses nothing.
#[tokio::test]
async fn paused_agent_is_silent_and_continues_on_resume() {
    let server = Server::start(1).await;
    let lines: Vec<Value> =
        (0..60).flat_map(|n| [say(&format!("line {n}")), json!({ "wait": 15 })]).collect();
    let session = started(&server, &script(&[turn(&lines)])).await;
    session.until_said("line 3").await;
    let pausing = session.post("/pause", json!({})).await.expect(202).body;
    assert_eq!(pausing["status"], "Pausing");
    session.post("/pause", json!({})).await.refused(409, "invalid-transition");
    let paused = session.until_status("Paused").await;
    assert_eq!(paused["hibernated"], false);
    let before = session.said().await;
    assert!(before.len() < 60, "the session was paused in the middle");

    // The complete run of another agent takes longer than a line of this one.
    let other = started(&server, &script(&[turn(&[json!({ "wait": 300 }), say("Time has passed.")])])).await;
    other.until_status("Idle").await;
    assert_eq!(session.said().await, before);
    assert_eq!(session.view().await["status"], "Paused");

    let resuming = session.post("/resume", json!({})).await.expect(202).body;
    assert_eq!(resuming["status"], "Resuming");
    session.until_status("Idle").await;
    let all: Vec<_> = (0..60).map(|n| format!("line {n}")).collect();
    assert_eq!(session.said().await, all);
    let activity = session.activity().await;
    let statuses = ["Pausing", "Paused", "Resuming", "Running: resumed"];
    let reported: Vec<_> = summaries(&activity).into_iter().filter(|s| statuses.contains(s)).collect();
    assert_eq!(reported, statuses);
}

/// A sidecar that dies during work fails its session, whatever the cause of death (decision 14); a retry continues it.
#[tokio::test]
async fn a_crash_at_work_is_an_infrastructure_error() {
    let server = Server::start(1).await;
    let dying = |crash: Value| script(&[turn(&[say("Before."), json!({ "crash": crash }), say("After.")])]);
    for crash in [json!("kill"), json!({ "exit": 3 })] {
        let session = started(&server, &dying(crash)).await;
        let view = session.until_status("Failed").await;
        assert_eq!(view["failureReason"]["reason"], "InfrastructureError");
        assert_eq!(session.said().await, ["Before."], "the events from before its death are kept");
        assert!(view["currentRun"].is_null());
    }
    let killed = started(&server, &endless()).await;
    killed.until_said("Working.").await;
    server.sidecars().iter().for_each(pilothouse_tests::processes::Sidecar::kill9);
    let view = killed.until_status("Failed").await;
    assert_eq!(view["failureReason"]["reason"], "InfrastructureError");

    // The owner is notified of each failure, and other contexts receive its reason.
    let notified = async || {
        let all = server.api().all("/api/notifications").await;
        let failed: Vec<_> = all.into_iter().filter(|one| one["kind"] == "session-failed").collect();
        (failed.len() >= 3).then_some(failed)
    };
    let notified =
        killed.until_within(pilothouse_tests::PATIENCE, "a notification of each failure", notified).await;
    assert_eq!(notified.len(), 3, "{notified:#?}");
    assert!(notified.iter().any(|one| one["sessionId"] == killed.id.as_str()), "{notified:#?}");
    let failed = until_published(&killed, "AgentSessionFailedEvent").await;
    assert_eq!(failed["failureReason"], "InfrastructureError", "{failed}");
}

/// A sidecar that dies at rest has no consequences: the next message wakes the session (decisions 14, 22).
#[tokio::test]
async fn crash_while_idle_hibernates_and_a_message_wakes() {
    let server = Server::start(1).await;
    let session = started(&server, &short()).await;
    session.until_status("Idle").await;
    server.sidecars().iter().for_each(pilothouse_tests::processes::Sidecar::kill9);
    let view = session.until("hibernation", |view| view["hibernated"] == true).await;
    assert_eq!(view["status"], "Idle");

    session.say("Are you there?", "Queued").await;
    let view = session.until("the second turn", |view| view["metrics"]["turnCount"] == 2).await;
    assert_eq!((&view["status"], &view["hibernated"]), (&json!("Idle"), &json!(false)));
    assert_eq!((&view["currentRun"]["ordinal"], &view["currentRun"]["cause"]), (&json!(2), &json!("Wake")));
    assert_eq!(session.said().await, ["Done.", "You said: Are you there?"]);
}

/// The agent ends its conversation, with and without an error (decision 19).
#[tokio::test]
async fn conversation_end_fails_or_hibernates_the_session() {
    let server = Server::start(1).await;
    let broken = json!({ "end": { "error": true, "reason": "success", "message": "It broke." } });
    let failing = started(&server, &script(&[turn(&[say("Hm."), broken])])).await;
    let view = failing.until_status("Failed").await;
    assert_eq!(view["failureReason"]["reason"], "AgentError", "a success with an error flag is an error");
    assert!(view["failureReason"]["message"].as_str().unwrap().contains("It broke."), "{view}");
    let activity = failing.activity().await;
    assert!(summaries(&activity).iter().any(|line| line.starts_with("Failed: ")), "{activity:#?}");

    // Without an error the session rests without a process; the next message resumes the conversation.
    let ending = started(&server, &script(&[turn(&[say("Bye.")]), json!({ "end": {} })])).await;
    let view = ending.until("hibernation", |view| view["hibernated"] == true).await;
    assert_eq!(view["status"], "Idle");
    ending.say("Not yet.", "Queued").await;
    ending.until_said("You said: Not yet.").await;
    let activity = ending.activity().await;
    let gone = "The sidecar's process is gone";
    assert!(summaries(&activity).iter().any(|line| line.starts_with(gone)), "{activity:#?}");
}
