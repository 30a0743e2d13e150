//! The control of an agent: approval rates of its project, pauses under a brake, kills, and templates.

use pilothouse_app::session_config;
use pilothouse_domain::session::{AgentFact, AgentSessionStatus as S, LifecycleCommand, RunPhase};
use serde_json::{Value, json};

use crate::authorization::call;
use crate::fixture::{ProjectFixture, permission};

impl ProjectFixture {
    async fn status(&self) -> S {
        self.app.store.session(self.session).await.unwrap().unwrap().status()
    }

    async fn of_agent(&self, action: &str, body: Value) -> (u16, Value) {
        self.send("POST", &format!("/api/agents/{}/{action}", self.agent), body).await
    }

    /// The agent confirms the command that is pending.
    pub(crate) async fn confirm(&self, command: LifecycleCommand) {
        let session = self.app.store.session(self.session).await.unwrap().unwrap();
        let pending = session.pending_command().unwrap().command_id;
        self.observe(AgentFact::CommandDone(command, pending)).await;
    }
}

#[tokio::test]
async fn a_minimum_approval_rate_of_the_project_asks() {
    let fixture = ProjectFixture::working().await;
    let path = format!("/api/projects/{}", fixture.project);
    let ecosystem = json!({ "mode": "ecosystem", "projectId": fixture.project });
    assert_eq!(fixture.send("PUT", "/api/control-mode", ecosystem).await.0, 200);
    let install = |id: &str| call(id, "Bash", "npm install left-pad");
    let run = fixture.run().await;
    assert_eq!(fixture.ask(run, &install("t1")).await.1["verdict"], "allow");
    let trust = json!({ "trust": { "config": { "escalateBelowApprovalRate": 0.5 } } });
    let (status, body) = fixture.send("PATCH", &path, trust).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(fixture.ask(run, &install("t2")).await.1["verdict"], "ask");
    let log = fixture.log().await;
    let entry = log.iter().find(|entry| entry["toolCallId"] == "t2").unwrap();
    assert_eq!(entry["rule"]["type"], "approvalRate", "{entry}");
}

#[tokio::test]
async fn resume_of_an_agent_is_refused_before_its_hold() {
    let fixture = ProjectFixture::working().await;
    let (status, body) = fixture.of_agent("pause", json!({})).await;
    assert_eq!(status, 202, "{body}");
    fixture.confirm(LifecycleCommand::Pause).await;
    // No reaction runs, so the session does not know of the brake yet.
    let brake = json!({ "scope": { "type": "agent", "agentId": fixture.agent }, "reason": "Stop" });
    assert_eq!(fixture.send("POST", "/api/brake", brake).await.0, 202);
    let (status, body) = fixture.of_agent("resume", json!({})).await;
    assert_eq!((status, &body["code"]), (409, &json!("braked")), "{body}");
    assert_eq!(fixture.status().await, S::Paused);
}

#[tokio::test]
async fn kill_without_grace_does_not_wait_for_the_agent() {
    for (grace, killed) in [(true, false), (false, true)] {
        let fixture = ProjectFixture::working().await;
        let (status, body) = fixture.of_agent("kill", json!({ "grace": grace })).await;
        assert_eq!((status, fixture.status().await), (202, S::Cancelling), "{body}");
        let session = fixture.app.store.session(fixture.session).await.unwrap().unwrap();
        let phase = session.run().unwrap().phase;
        assert_eq!(matches!(phase, RunPhase::Ending { killed: true, .. }), killed, "{phase:?}");
    }
}

#[tokio::test]
async fn kill_all_ends_paused_and_waiting_agents() {
    let kill = async |fixture: &ProjectFixture| {
        let (status, body) =
            fixture.send("POST", &format!("/api/projects/{}/kill", fixture.project), Value::Null).await;
        assert_eq!((status, body["agents"].as_array().unwrap().len()), (200, 1), "{body}");
        let ends = fixture.status().await;
        assert!(matches!(ends, S::Cancelling | S::Cancelled), "{ends}");
    };
    let paused = ProjectFixture::working().await;
    assert_eq!(paused.of_agent("pause", json!({})).await.0, 202);
    paused.confirm(LifecycleCommand::Pause).await;
    assert_eq!(paused.status().await, S::Paused);
    kill(&paused).await;
    let waiting = ProjectFixture::working().await;
    waiting.observe(permission("q1")).await;
    assert_eq!(waiting.status().await, S::WaitingForInput);
    kill(&waiting).await;
    let reviewed = ProjectFixture::working().await;
    reviewed.complete_turn(true).await;
    assert_eq!(reviewed.status().await, S::Idle);
    kill(&reviewed).await;
}

/// S2 `createAgentBrief`: defaults of the template, then fields of the request.
#[tokio::test]
async fn template_fills_the_omitted_fields_of_a_brief() {
    let mut fixture = ProjectFixture::working().await;
    let template = json!({
        "name": "Reader", "modelId": "small", "allowedTools": ["Read"], "defaultBudgetCapUsd": "2", "adapter": "script",
        "adapterOptions": { "speed": 3 }, "systemPrompt": "Read slowly.",
    });
    let (status, template) = fixture.send("POST", "/api/agents/templates", template).await;
    assert_eq!(status, 201, "{template}");
    for (brief, model, tools, options) in [
        (json!({}), "small", "Read", json!({ "speed": 3 })),
        (
            json!({ "modelPreference": "large", "allowedTools": ["Bash"], "providerConfig": { "speed": 9 } }),
            "large",
            "Bash",
            json!({ "speed": 9 }),
        ),
    ] {
        let mut brief = brief;
        brief["role"] = json!("Reader");
        brief["workstream"] = json!("api");
        let spawn = json!({ "brief": brief, "objective": "Read it", "workingDirectory": "/w",
            "templateId": template["id"] });
        let (status, spawned) = fixture.send("POST", "/api/agents/spawn", spawn).await;
        assert_eq!(status, 201, "{spawned}");
        fixture.session = spawned["session"]["id"].as_str().unwrap().parse().unwrap();
        let session = fixture.app.store.session(fixture.session).await.unwrap().unwrap();
        assert_eq!(session.budget().hard_cap_usd().to_string(), "2");
        let config = session_config::composed(&fixture.app, &session).await.unwrap();
        assert_eq!((config.model_id.as_str(), config.allowed_tools), (model, vec![tools.to_owned()]));
        assert_eq!(config.adapter_options, options);
        let prompt = config.composed_system_prompt;
        assert!(prompt.contains("The API") && prompt.contains("Read slowly."), "{prompt}");
    }
}
