//! Decisions that no session guards (decision 81), through real processes.

use pilothouse_tests::processes::Sidecar;
use pilothouse_tests::{Api, PATIENCE, Session};
use serde_json::{Value, json};

use crate::projects::{project, spawned};
use crate::scripts::{endless, say, script, turn};
use crate::server::Server;

/// Waits for a decision of the inbox.
async fn decision(session: &Session, query: &str, what: impl Fn(&Value) -> bool) -> Value {
    let look = async || session.api.all(&format!("/api/decisions{query}")).await.into_iter().find(&what);
    session.until_within(PATIENCE, "the decision", look).await
}

async fn resolve(api: &Api, decision: &Value, resolution: Value) -> Value {
    let path = format!("/api/decisions/{}/resolve", decision["id"].as_str().unwrap());
    api.post(&path, resolution).await.expect(200).body
}

async fn configured(server: &Server, policy: Value) -> Value {
    let api = server.api();
    let shop = project(&api, "Shop").await;
    let path = format!("/api/projects/{}", shop["id"].as_str().unwrap());
    api.patch(&path, policy).await.expect(200).body
}

/// An agent that proposes options.
fn asking() -> Value {
    let question = json!({ "id": "q1", "questions": [
        { "question": "Which store?", "options": [{ "label": "SQLite" }, { "label": "Postgres" }] },
    ] });
    script(&[turn(&[json!({ "question": question })])])
}

/// The agent is killed while it waits. Its question goes to triage and is decided there.
#[tokio::test]
async fn question_of_a_killed_agent_is_decided_in_triage() {
    let server = Server::start(1).await;
    let policy = json!({ "orphanedDecisions": { "adaptive": { "default": "triage", "gracePeriodMs": 0 } } });
    let shop = configured(&server, policy).await;
    let (agent, session) = spawned(&server, &shop, "Builder", &asking()).await;
    decision(&session, "", |it| it["state"] == "pending").await;
    session.api.post(&format!("/api/agents/{agent}/kill"), json!({ "grace": false })).await.expect(202);
    let orphan = decision(&session, "", |it| it["stage"] == "triage").await;
    assert_eq!((&orphan["state"], &orphan["badges"]), (&json!("orphaned"), &json!(["agentKilled"])));
    let chosen = json!({ "resolutionType": "choose_option", "chosenOptionId": "1" });
    assert_eq!(resolve(&session.api, &orphan, chosen).await["state"], "resolved");
    session.until_status("Cancelled").await;
    assert!(session.api.all("/api/decisions").await.is_empty());
}

/// The decision of a brake is not suspended, and its approval lets the agent continue.
#[tokio::test]
async fn approval_of_its_decision_releases_a_brake() {
    let server = Server::start(1).await;
    let session = Session::start(&server.api(), crate::server::work(&server, &endless())).await;
    session.until_said("Working.").await;
    let body =
        json!({ "scope": { "type": "all" }, "reason": "Look", "releaseCondition": { "type": "decision" } });
    let brake = session.api.post("/api/brake", body).await.expect(202).body;
    session.until_status("Paused").await;
    let release = decision(&session, "", |it| it["kind"] == "brake_release").await;
    assert_eq!((&release["state"], &release["id"]), (&json!("pending"), &brake["releaseDecisionId"]));
    resolve(&session.api, &release, json!({ "resolutionType": "approve" })).await;
    session.until_status("Running").await;
    let path = format!("/api/brakes/{}", brake["id"].as_str().unwrap());
    assert_eq!(session.api.get(&path).await.expect(200).body["released"]["by"], "decision");
}

/// The process of the agent is killed by the operating system. A person chooses to resume, and the agent works again.
#[tokio::test]
async fn agent_of_a_killed_process_resumes_by_a_decision() {
    let server = Server::start(1).await;
    let shop = configured(&server, json!({})).await;
    let (_, session) = spawned(&server, &shop, "Builder", &endless()).await;
    session.until_said("Working.").await;
    server.sidecars().iter().for_each(Sidecar::kill9);
    session.until_status("Failed").await;
    let crash = decision(&session, "", |it| it["kind"] == "crash_recovery").await;
    assert_eq!(crash["failureReason"], "InfrastructureError");
    let options: Vec<_> =
        crash["options"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect();
    assert_eq!(options, ["resume", "restart", "abandon"]);
    let resume = json!({ "resolutionType": "choose_option", "chosenOptionId": "resume" });
    assert_eq!(resolve(&session.api, &crash, resume).await["state"], "resolved");
    session.until_status("Running").await;
    assert_eq!(session.view().await["retryCount"], 1);
}

/// With an automatic policy, the server itself starts a new session of an agent whose process was killed.
#[tokio::test]
async fn agent_of_a_killed_process_restarts_without_a_person() {
    let server = Server::start(1).await;
    let conditions = json!({ "minTrustScore": 0, "cooldownMs": 0 });
    let policy = json!({ "crashRecovery": {
        "autoRestart": true, "autoRestartConditions": conditions, "preferResumeOverRestart": false,
    } });
    let shop = configured(&server, policy).await;
    let plays = script(&[turn(&[say("Working."), json!({ "wait": 600_000 })])]);
    let (agent, session) = spawned(&server, &shop, "Builder", &plays).await;
    session.until_said("Working.").await;
    server.sidecars().iter().for_each(Sidecar::kill9);
    let path = format!("/api/agents/{agent}");
    let look = async || {
        let view = session.api.get(&path).await.expect(200).body;
        (view["sessionId"] != json!(session.id) && view["status"] == "running").then_some(view)
    };
    let view = session.until_within(PATIENCE, "the new session", look).await;
    assert_eq!(view["sessionCount"], 2);
    let next = Session::new(session.api.clone(), view["sessionId"].as_str().unwrap().to_owned(), Value::Null);
    next.until_said("Working.").await;
    let ended = decision(&session, "?state=auto_resolved", |it| it["kind"] == "crash_recovery").await;
    assert_eq!(ended["resolvedBy"], json!({ "type": "recovery_policy" }));
}
