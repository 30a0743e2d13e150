//! Checkpoints of an agent, its end by its owner, and restarts under a changed control mode (decision 90).

use std::time::Duration;

use pilothouse_domain::session::{LifecycleCommand, RunPhase, UsageReport};
use pilothouse_domain::value::TokenUsage;
use pilothouse_domain::{MeterId, SessionChain, SessionChainId};
use pilothouse_functions::events::clock;

use super::*;

impl ProjectFixture {
    async fn agent_path(&self, method: &str, action: &str, body: Value) -> (u16, Value) {
        self.send(method, &format!("/api/agents/{}{action}", self.agent), body).await
    }

    async fn checkpoints(&self) -> Vec<Value> {
        let (status, body) = self.agent_path("GET", "/checkpoints", Value::Null).await;
        assert_eq!(status, 200, "{body}");
        body["items"].as_array().unwrap().clone()
    }

    async fn reports_usage(&self, conversation: &str) {
        self.observe(AgentFact::Used(UsageReport {
            meter: MeterId::parse(conversation).unwrap(),
            model: "m".to_owned(),
            subagent: None,
            cost: "0.1".parse().unwrap(),
            tokens: TokenUsage::default(),
            context_window: None,
        }))
        .await;
    }

    async fn with_full_context() -> (Self, SessionChainId) {
        let fixture = Self::working().await;
        fixture.observe(AgentFact::ContextExhausted).await;
        fixture.react().await;
        let session = fixture.app.store.session(fixture.session).await.unwrap().unwrap();
        (fixture, session.chain_id().unwrap())
    }

    async fn chain(&self, id: SessionChainId) -> (String, u64) {
        let loaded = self.app.store.any_aggregate::<SessionChain>(id).await.unwrap().unwrap();
        (loaded.value.status().to_string(), loaded.version)
    }

    async fn change_mode(&self, mode: &str) -> Value {
        let body = json!({ "projectId": self.project, "mode": mode, "restartAgents": true });
        let (status, body) = self.send("PUT", "/api/control-mode", body).await;
        assert_eq!(status, 200, "{body}");
        body
    }
}

#[tokio::test]
async fn checkpoints_are_listed_newest_first() {
    let fixture = ProjectFixture::working().await;
    assert_eq!(fixture.checkpoints().await, [] as [Value; 0]);
    fixture.reports_usage("talk-1").await;
    fixture.observe(permission("q1")).await;
    fixture.advance(Duration::from_secs(1));
    let brief = json!({ "description": "Also write the changelog." });
    assert_eq!(fixture.agent_path("PATCH", "/brief", brief).await.0, 200);
    fixture.observe(permission("q2")).await;
    let listed = fixture.checkpoints().await;
    let counts: Vec<_> = listed.iter().map(|it| it["pendingDecisionIds"].as_array().unwrap().len()).collect();
    assert_eq!(counts, [2, 1]);
    let inbox = fixture.inbox("").await;
    for id in listed[0]["pendingDecisionIds"].as_array().unwrap() {
        assert!(inbox.iter().any(|decision| decision["id"] == *id), "{id}");
    }
    let newest = &listed[0];
    assert_eq!((&newest["agentId"], &newest["sessionId"]), (&json!(fixture.agent), &json!(fixture.session)));
    assert_eq!(newest["checkpoint"]["sessionId"], "talk-1");
    assert_eq!(newest["briefVersion"], 1, "the agent has not received the changed brief");
    assert_eq!((&newest["serializedBy"], &newest["run"]), (&json!("decision"), &json!(1)));
    assert!(newest["estimatedSizeBytes"].as_u64().unwrap() < 2048, "{newest}");
    let path = format!("/api/agents/{}/checkpoints", fixture.agent);
    assert_eq!(fixture.send_as("bob", "GET", &path, Value::Null).await.0, 404);
}

#[tokio::test]
async fn kill_says_whether_a_checkpoint_was_made() {
    let fixture = ProjectFixture::working().await;
    fixture.observe(permission("q1")).await;
    let body = json!({ "grace": true, "graceTimeoutMs": 10_000 });
    let (status, killed) = fixture.agent_path("POST", "/kill", body).await;
    assert_eq!((status, &killed["kill"]), (202, &Value::Null), "it is not over");
    fixture.confirm(LifecycleCommand::Stop).await;
    let (_, agent) = fixture.agent_path("GET", "", Value::Null).await;
    assert_eq!(agent["kill"]["cleanShutdown"], true, "{agent}");
    assert_eq!(agent["kill"]["state"], fixture.checkpoints().await[0]);
    assert_eq!(agent["kill"]["state"]["pendingDecisionIds"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn killed_agent_whose_process_dies_first_is_not_recovered() {
    let conditions = json!({ "minTrustScore": 0, "cooldownMs": 0 });
    for request in ["/pause", "/interrupt"] {
        let fixture = ProjectFixture::working().await;
        let policy = json!({ "autoRestart": true, "autoRestartConditions": conditions });
        fixture.configure(json!({ "crashRecovery": policy })).await;
        let (status, body) = fixture.send("POST", &fixture.session_path(request), Value::Null).await;
        assert_eq!(status, 202, "{body}");
        assert_eq!(fixture.agent_path("POST", "/kill", json!({})).await.0, 202);
        fixture.end_run().await;
        fixture.react().await;
        fixture.process_deadlines().await;
        assert_eq!(fixture.session_status().await, "Cancelled", "{request}");
        assert!(fixture.inbox("").await.is_empty(), "there is nothing to recover");
        let (_, agent) = fixture.agent_path("GET", "", Value::Null).await;
        assert_eq!(agent["kill"], json!({ "cleanShutdown": false }), "it did not stop by itself");
    }
}

#[tokio::test]
async fn agent_that_outlasts_its_grace_period_has_no_state() {
    let fixture = ProjectFixture::working().await;
    let body = json!({ "graceTimeoutMs": 2000 });
    assert_eq!(fixture.agent_path("POST", "/kill", body).await.0, 202);
    fixture.advance(Duration::from_secs(2));
    clock::tick(&fixture.app).await.unwrap();
    fixture.end_run().await;
    let (_, agent) = fixture.agent_path("GET", "", Value::Null).await;
    assert_eq!(agent["kill"], json!({ "cleanShutdown": false }));
}

#[tokio::test]
async fn kill_ends_the_process_after_its_grace_period() {
    let fixture = ProjectFixture::working().await;
    let is_ended = async || {
        let session = fixture.app.store.session(fixture.session).await.unwrap().unwrap();
        matches!(session.run().unwrap().phase, RunPhase::Ending { killed: true, .. })
    };
    let body = json!({ "grace": true, "graceTimeoutMs": 2000 });
    let (status, killed) = fixture.agent_path("POST", "/kill", body).await;
    assert_eq!(status, 202, "{killed}");
    fixture.advance(Duration::from_millis(1999));
    clock::tick(&fixture.app).await.unwrap();
    assert!(!is_ended().await, "the agent may still stop");
    fixture.advance(Duration::from_millis(1));
    clock::tick(&fixture.app).await.unwrap();
    assert!(is_ended().await, "its time is over");
}

#[tokio::test]
async fn too_long_grace_period_is_refused() {
    let fixture = ProjectFixture::working().await;
    let body = json!({ "graceTimeoutMs": 50_001, "now": true });
    let (status, refused) = fixture.agent_path("POST", "/kill", body).await;
    let fields: Vec<_> =
        refused["violations"].as_array().unwrap().iter().map(|it| it["field"].as_str().unwrap()).collect();
    assert_eq!(status, 422, "{refused}");
    assert!(fields.contains(&"graceTimeoutMs") && fields.contains(&"now"), "{refused}");
    assert_eq!(fixture.session_status().await, "Running");
    let longest = json!({ "graceTimeoutMs": 50_000 });
    assert_eq!(fixture.agent_path("POST", "/kill", longest).await.0, 202);
}

#[tokio::test]
async fn killed_agent_with_a_full_context_is_not_continued() {
    let (fixture, chain) = ProjectFixture::with_full_context().await;
    let (status, killed) = fixture.agent_path("POST", "/kill", json!({})).await;
    assert_eq!((status, &killed["status"]), (200, &json!("error")), "{killed}");
    fixture.react().await;
    fixture.end_run().await;
    fixture.react().await;
    fixture.react_backwards().await;
    let (status, version) = fixture.chain(chain).await;
    assert_eq!(status, "Cancelled");
    fixture.react_to("chain", &chain.to_string(), version).await;
    let (_, agent) = fixture.agent_path("GET", "", Value::Null).await;
    assert_eq!((&agent["sessionCount"], &agent["status"]), (&json!(1), &json!("error")));
    assert_eq!(fixture.agent_path("POST", "/kill", json!({})).await.0, 409);
}

#[tokio::test]
async fn kill_all_ends_an_agent_that_waits_for_its_continuation() {
    let (fixture, chain) = ProjectFixture::with_full_context().await;
    let path = format!("/api/projects/{}/kill", fixture.project);
    let (status, killed) = fixture.send("POST", &path, Value::Null).await;
    assert_eq!((status, killed["agents"].as_array().unwrap().len()), (200, 1), "{killed}");
    fixture.end_run().await;
    fixture.react().await;
    assert_eq!(fixture.chain(chain).await.0, "Cancelled");
    assert_eq!(fixture.loaded_agent().await.value.session_count(), 1);
    let (_, again) = fixture.send("POST", &path, Value::Null).await;
    assert_eq!(again["agents"], json!([]));
}

#[tokio::test]
async fn kill_after_the_continuation_ends_the_continuation() {
    let (mut fixture, _) = ProjectFixture::with_full_context().await;
    fixture.end_run().await;
    fixture.react().await;
    fixture.session = fixture.loaded_agent().await.value.current_session_id();
    let (status, killed) = fixture.agent_path("POST", "/kill", json!({})).await;
    assert!(status < 300, "{killed}");
    assert_eq!(killed["sessionId"], json!(fixture.session));
    let ends = fixture.session_status().await;
    assert!(ends.starts_with("Cancel"), "{ends}");
}

#[tokio::test]
async fn process_whose_folders_would_be_lost_is_not_restarted() {
    let fixture = ProjectFixture::working().await;
    fixture.advance(Duration::from_secs(1));
    assert_eq!(fixture.change_mode("orchestrator").await["restartedAgents"], 0);
    assert_eq!(fixture.session_status().await, "Running");
}

#[tokio::test]
async fn agents_restart_once_for_a_changed_mode() {
    let mut fixture = ProjectFixture::working().await;
    fixture.keep_workspaces();
    fixture.advance(Duration::from_secs(1));
    assert_eq!(fixture.change_mode("orchestrator").await["restartedAgents"], 1);
    assert_eq!(fixture.session_status().await, "Pausing");
    let before = fixture.app.store.session(fixture.session).await.unwrap().unwrap().journal_sequence();
    assert_eq!(fixture.change_mode("orchestrator").await["restartedAgents"], 1);
    let after = fixture.app.store.session(fixture.session).await.unwrap().unwrap().journal_sequence();
    assert_eq!(before, after, "a repetition changes nothing");
    fixture.confirm(LifecycleCommand::Pause).await;
    assert_eq!(fixture.checkpoints().await[0]["serializedBy"], "pause");
    fixture.end_run().await;
    assert_eq!(fixture.session_status().await, "Resuming");
    fixture.react().await;
    let can = serde_json::from_value(json!({ "pause": true, "resumeConversation": true })).unwrap();
    fixture.observe(AgentFact::SidecarReady(can)).await;
    fixture.confirm(LifecycleCommand::Resume).await;
    assert_eq!(fixture.session_status().await, "Running");
    assert_eq!(fixture.change_mode("orchestrator").await["restartedAgents"], 1);
    assert_eq!(fixture.session_status().await, "Running", "it is not restarted again");
}

#[tokio::test]
async fn mode_without_restart_leaves_the_processes() {
    let fixture = ProjectFixture::working().await;
    fixture.advance(Duration::from_secs(1));
    let body = json!({ "projectId": fixture.project, "mode": "orchestrator" });
    let (_, changed) = fixture.send("PUT", "/api/control-mode", body).await;
    assert_eq!((changed.get("restartedAgents"), fixture.session_status().await.as_str()), (None, "Running"));
}
