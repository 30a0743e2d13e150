//! Checkpoints of the agents of projects, their recovery, their end, and restarts under a changed control mode (decision 90), through
//! real processes.

use pilothouse_tests::processes::Sidecar;
use pilothouse_tests::{PATIENCE, Session};
use serde_json::{Value, json};

use crate::projects::{project, spawned};
use crate::scripts::{endless, say, script, turn};
use crate::server::Server;

/// Says `Working.` after a report of usage, and outlasts every test.
fn metered() -> Value {
    let usage = json!({ "usage": { "costUsd": "0.01", "tokens": { "inputTokens": 10, "outputTokens": 1 } } });
    script(&[turn(&[usage, say("Working."), json!({ "wait": 600_000 })])])
}

async fn agent(session: &Session, id: &str) -> Value {
    session.api.get(&format!("/api/agents/{id}")).await.expect(200).body
}

async fn until_agent(session: &Session, id: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let look = async || Some(agent(session, id).await).filter(&holds);
    session.until_within(PATIENCE, what, look).await
}

/// Newest first.
async fn checkpoints(session: &Session, id: &str) -> Vec<Value> {
    let listed = session.api.get(&format!("/api/agents/{id}/checkpoints")).await.expect(200).body;
    listed["items"].as_array().unwrap().clone()
}

/// The policy of the project resumes the agent, whose process the operating system killed.
#[tokio::test]
async fn killed_process_continues_its_conversation_without_a_person() {
    let server = Server::start(1).await;
    let shop = project(&server.api(), "Shop").await;
    let conditions = json!({ "minTrustScore": 0, "cooldownMs": 0 });
    let policy = json!({ "crashRecovery": { "autoRestart": true, "autoRestartConditions": conditions } });
    let path = format!("/api/projects/{}", shop["id"].as_str().unwrap());
    server.api().patch(&path, policy).await.expect(200);
    let (id, session) = spawned(&server, &shop, "Builder", &metered()).await;
    session.until_said("Working.").await;
    server.sidecars().iter().for_each(Sidecar::kill9);
    session.until("a retry", |view| view["retryCount"] == 1 && view["status"] == "Running").await;
    let crash = checkpoints(&session, &id).await[0].clone();
    assert_eq!((&crash["serializedBy"], &crash["run"]), (&json!("crash_recovery"), &json!(1)), "{crash}");
    assert!(crash["lastSequence"].as_u64().unwrap() > 0, "{crash}");
    session.post("/pause", json!({})).await.expect(202);
    session.until_status("Paused").await;
    let pause = checkpoints(&session, &id).await[0].clone();
    assert_eq!((&pause["serializedBy"], &pause["run"]), (&json!("pause"), &json!(2)), "{pause}");
    assert_eq!(pause["checkpoint"], crash["checkpoint"], "the conversation is the same");
    assert_eq!(pause["checkpoint"]["sdk"], "script");
    assert_eq!(agent(&session, &id).await["sessionCount"], 1);
}

#[tokio::test]
async fn kill_with_grace_keeps_the_state_of_the_agent() {
    let server = Server::start(1).await;
    let shop = project(&server.api(), "Shop").await;
    let (id, session) = spawned(&server, &shop, "Builder", &metered()).await;
    session.until_said("Working.").await;
    let kill = json!({ "grace": true, "graceTimeoutMs": 50_000 });
    session.api.post(&format!("/api/agents/{id}/kill"), kill).await.expect(202);
    let killed = until_agent(&session, &id, "the end", |view| view["kill"].is_object()).await;
    assert_eq!(killed["kill"]["cleanShutdown"], true, "{killed}");
    assert_eq!(killed["kill"]["state"]["serializedBy"], "kill_grace", "{killed}");
    assert_eq!(killed["kill"]["state"], checkpoints(&session, &id).await[0]);
}

#[tokio::test]
async fn agent_that_ignores_its_stop_is_ended_after_the_grace_period() {
    let server = Server::start(1).await;
    let shop = project(&server.api(), "Shop").await;
    let ignore = json!({ "ignore": { "command": "stop", "untilRepeated": false } });
    let plays = script(&[turn(&[ignore, say("Working."), json!({ "wait": 600_000 })])]);
    let (id, session) = spawned(&server, &shop, "Builder", &plays).await;
    session.until_said("Working.").await;
    let kill = json!({ "graceTimeoutMs": 500 });
    session.api.post(&format!("/api/agents/{id}/kill"), kill).await.expect(202);
    let killed = until_agent(&session, &id, "the end", |view| view["kill"].is_object()).await;
    assert_eq!(killed["kill"], json!({ "cleanShutdown": false }));
    assert_eq!(killed["sessionStatus"], "Cancelled");
}

/// The context is full and the agent has not written its handoff document, so its work waits for another session.
#[tokio::test]
async fn killed_work_with_a_full_context_gets_no_other_session() {
    let server = Server::start(1).await;
    let shop = project(&server.api(), "Shop").await;
    let plays =
        script(&[turn(&[say("Part one"), json!({ "contextExhausted": {} }), json!({ "wait": 600_000 })])]);
    let (id, session) = spawned(&server, &shop, "Builder", &plays).await;
    session.until_status("ContextExhausted").await;
    let kill = format!("/api/projects/{}/kill", shop["id"].as_str().unwrap());
    let killed = session.api.post(&kill, json!({})).await.expect(200).body;
    assert_eq!(killed["agents"][0]["status"], "error", "{killed}");
    session.until("the end of the process", |view| view["currentRun"].is_null()).await;
    let path = format!("/api/agents/chains/{}", session.view().await["chainId"].as_str().unwrap());
    let look =
        async || Some(session.api.get(&path).await.expect(200).body).filter(|it| it["status"] == "Cancelled");
    session.until_within(PATIENCE, "the end of the chain", look).await;
    let view = agent(&session, &id).await;
    assert_eq!((&view["sessionCount"], &view["status"]), (&json!(1), &json!("error")));
}

#[tokio::test]
async fn process_restarts_for_a_changed_mode_and_goes_on() {
    let server = Server::start(1).await;
    let shop = project(&server.api(), "Shop").await;
    let (id, session) = spawned(&server, &shop, "Builder", &endless()).await;
    session.until_said("Working.").await;
    let change = json!({ "projectId": shop["id"], "mode": "orchestrator", "restartAgents": true });
    let changed = session.api.put("/api/control-mode", change.clone()).await.expect(200).body;
    assert_eq!((&changed["mode"], &changed["restartedAgents"]), (&json!("orchestrator"), &json!(1)));
    let restarted = |view: &Value| view["status"] == "Running" && view["currentRun"]["ordinal"] == 2;
    session.until("another process", restarted).await;
    assert_eq!(checkpoints(&session, &id).await[0]["serializedBy"], "pause");
    let again = session.api.put("/api/control-mode", change).await.expect(200).body;
    assert_eq!(again["restartedAgents"], 1, "it was restarted for this mode");
    let view = session.view().await;
    assert!(restarted(&view), "it is not restarted again: {view}");
    assert_eq!(agent(&session, &id).await["briefSync"], "synced");
}
