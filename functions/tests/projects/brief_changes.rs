//! Changes of a brief: omitted fields stay, and what the agent starts with next follows the brief (decision 79).

use pilothouse_app::session_config;
use pilothouse_domain::AgentSessionId;
use pilothouse_domain::session::AgentFact;
use pilothouse_domain::value::{Capabilities, ContextPolicy};
use pilothouse_wire::command::AgentSessionConfig;
use serde_json::{Value, json};

use crate::fixture::ProjectFixture;

impl ProjectFixture {
    pub(crate) async fn change_brief(&self, changes: Value) -> (u16, Value) {
        self.send("PATCH", &format!("/api/agents/{}/brief", self.agent), changes).await
    }

    /// What a sidecar of the session would receive now.
    async fn configuration(&self, session: AgentSessionId) -> AgentSessionConfig {
        let session = self.app.store.session(session).await.unwrap().unwrap();
        session_config::composed(&self.app, &session).await.unwrap()
    }
}

#[tokio::test]
async fn omitted_fields_of_a_brief_stay_and_null_clears() {
    let fixture = ProjectFixture::working().await;
    let guardrail = json!({ "name": "no shell", "action": "block", "condition": { "tool": "Bash" } });
    let rules = json!({
        "guardrailPolicy": { "toolGuardrails": [guardrail] },
        "escalationProtocol": { "alwaysEscalate": ["deploy"] },
        "decisionTimeout": { "timeoutTicks": 5, "onTimeout": "cancel" },
        "constraints": ["Write tests"],
        "allowedTools": ["Read"],
        "modelPreference": "large",
    });
    let (status, agent) = fixture.change_brief(rules).await;
    assert_eq!((status, &agent["briefVersion"]), (200, &json!(2)), "{agent}");
    let before = agent["brief"].clone();
    let (status, agent) = fixture.change_brief(json!({ "description": "Builds it" })).await;
    assert_eq!(status, 200, "{agent}");
    let mut expected = before;
    expected["description"] = json!("Builds it");
    assert_eq!(agent["brief"], expected);
    let (status, agent) =
        fixture.change_brief(json!({ "guardrailPolicy": null, "allowedTools": null })).await;
    assert_eq!(status, 200, "{agent}");
    assert_eq!((agent["brief"].get("guardrailPolicy"), &agent["brief"]["allowedTools"]), (None, &json!([])));
    assert_eq!(agent["brief"]["escalationProtocol"]["alwaysEscalate"], json!(["deploy"]));
    let (_, same) = fixture.change_brief(json!({})).await;
    assert_eq!(same["briefVersion"], agent["briefVersion"], "nothing has changed");
}

#[tokio::test]
async fn bad_changes_of_a_brief_name_every_violation() {
    let fixture = ProjectFixture::working().await;
    let wrong =
        json!({ "role": null, "colour": "red", "modelPreference": "", "providerConfig": { "mode": "yolo" } });
    let (status, body) = fixture.change_brief(wrong).await;
    let fields: Vec<_> = body["violations"].as_array().unwrap().iter().map(|it| &it["field"]).collect();
    assert_eq!(status, 422, "{body}");
    for field in ["role", "colour", "modelPreference"] {
        assert!(fields.contains(&&json!(field)), "{fields:?}");
    }
    let (status, body) = fixture.change_brief(json!({ "providerConfig": { "mode": "yolo" } })).await;
    assert_eq!((status, &body["violations"][0]["field"]), (422, &json!("providerConfig.mode")));
    let (status, body) = fixture.change_brief(json!(["role"])).await;
    assert_eq!(status, 422, "{body}");
    assert_eq!(fixture.loaded_agent().await.value.brief_version(), 1);
}

#[tokio::test]
async fn policies_of_a_brief_reach_the_configuration() {
    let fixture = ProjectFixture::working().await;
    let policies = json!({
        "delegationPolicy": { "canSpawnSubagents": true, "allowedHandoffs": ["reviewer"] },
        "sessionPolicy": { "historyPolicy": "summarized", "maxTurns": 7 },
        "artifactFiles": [{ "pattern": "./docs/*.md", "kind": "document" }],
    });
    let (status, agent) = fixture.change_brief(policies).await;
    assert_eq!((status, &agent["brief"]["delegationPolicy"]["maxDepth"]), (200, &json!(1)), "{agent}");
    let config = fixture.configuration(fixture.session).await;
    let delegation = config.policies.delegation_policy.unwrap();
    assert_eq!(delegation.allowed_handoffs.as_deref(), Some(&["reviewer".to_owned()][..]));
    assert_eq!(config.policies.session_policy.unwrap().max_turns, Some(7));
    assert_eq!(config.options.context_policy, ContextPolicy::Compact);
    let files: Vec<_> = config.policies.artifact_files.iter().map(|files| files.pattern.as_str()).collect();
    assert_eq!(files, ["docs/*.md"]);
    let (status, body) = fixture
        .change_brief(json!({ "delegationPolicy": { "allowedHandoffs": [1], "depth": 2 },
            "sessionPolicy": { "historyPolicy": "some" } }))
        .await;
    let fields: Vec<_> = body["violations"].as_array().unwrap().iter().map(|it| &it["field"]).collect();
    assert_eq!(status, 422, "{body}");
    for field in [
        "delegationPolicy.canSpawnSubagents",
        "delegationPolicy.allowedHandoffs[0]",
        "delegationPolicy.depth",
        "sessionPolicy.historyPolicy",
    ] {
        assert!(fields.contains(&&json!(field)), "{field}: {fields:?}");
    }
}

#[tokio::test]
async fn every_violation_of_artifact_files_is_named() {
    let fixture = ProjectFixture::working().await;
    let files = |pattern: &str| json!({ "pattern": pattern, "kind": "document" });
    let fields = async |artifact_files: Value| {
        let (status, body) = fixture.change_brief(json!({ "artifactFiles": artifact_files })).await;
        assert_eq!(status, 422, "{body}");
        let found = body["violations"].as_array().unwrap().iter().map(|it| it["field"].as_str().unwrap());
        found.map(str::to_owned).collect::<Vec<_>>()
    };
    let wrong = json!([files("../a"), files("/a"), { "pattern": "a", "kind": "poem" }, { "pattern": "b", "kinds": 1 }]);
    let found = fields(wrong).await;
    for field in ["[0].pattern", "[1].pattern", "[2].kind", "[3].kind", "[3].kinds"] {
        assert!(found.contains(&format!("artifactFiles{field}")), "{field}: {found:?}");
    }
    assert_eq!(fields(json!([files("a"), files("b"), files("./a")])).await, ["artifactFiles[2].pattern"]);
    let many: Vec<_> = (0..21).map(|n| files(&n.to_string())).collect();
    assert_eq!(fields(json!(many)).await, ["artifactFiles"]);
    assert_eq!(fixture.loaded_agent().await.value.brief_version(), 1);
}

#[tokio::test]
async fn tools_of_a_brief_reach_the_agent_with_their_server() {
    let fixture = ProjectFixture::working().await;
    let tool = json!({ "name": "lookup", "description": "Looks it up", "inputSchema": "{}" });
    let servers = json!([{ "uri": "https://tools.example.com/mcp", "tools": [tool] }]);
    let (status, body) = fixture.change_brief(json!({ "mcpServers": servers })).await;
    assert_eq!(status, 200, "{body}");
    let config = fixture.configuration(fixture.session).await;
    let tools: Vec<_> =
        config.custom_tools.iter().map(|tool| (tool.name.as_str(), tool.server_uri.as_str())).collect();
    assert_eq!(tools, [("lookup", "https://tools.example.com/mcp")]);
}

#[tokio::test]
async fn changed_tools_and_options_reach_the_next_composition() {
    let fixture = ProjectFixture::working().await;
    let (status, body) =
        fixture.change_brief(json!({ "allowedTools": ["Read"], "providerConfig": { "speed": 2 } })).await;
    assert_eq!(status, 200, "{body}");
    let config = fixture.configuration(fixture.session).await;
    assert_eq!(
        (config.allowed_tools, config.adapter_options),
        (vec!["Read".to_owned()], json!({ "speed": 2 }))
    );
    let cleared =
        json!({ "allowedTools": null, "adapter": "claude", "providerConfig": { "fallbackModel": "x" } });
    assert_eq!(fixture.change_brief(cleared).await.0, 200);
    let config = fixture.configuration(fixture.session).await;
    assert_eq!(
        (config.allowed_tools, config.adapter_options),
        (vec![], Value::Null),
        "options of another adapter"
    );
}

#[tokio::test]
async fn another_model_of_a_brief_is_used_at_once_or_next() {
    let fixture = ProjectFixture::working().await;
    assert_eq!(fixture.change_brief(json!({ "modelPreference": "large" })).await.0, 200);
    // The agent cannot change its model while it runs, so the next run has it.
    assert_eq!(fixture.configuration(fixture.session).await.model_id, "large");

    let fixture = ProjectFixture::spawned().await;
    fixture.react().await;
    let can = Capabilities { model_switch: true, ..Capabilities::default() };
    fixture.observe(AgentFact::SidecarReady(can)).await;
    fixture.observe(AgentFact::TurnStarted { turn: "t".parse().unwrap(), message: None }).await;
    assert_eq!(fixture.change_brief(json!({ "modelPreference": "large" })).await.0, 200);
    let session = fixture.app.store.session(fixture.session).await.unwrap().unwrap();
    assert_eq!(session.adjustments().count(), 1, "the sidecar is told");
    // Another change of the brief does not override what its owner chose meanwhile.
    assert_eq!(fixture.change_brief(json!({ "description": "Builds it" })).await.0, 200);
    let session = fixture.app.store.session(fixture.session).await.unwrap().unwrap();
    assert_eq!(session.adjustments().count(), 1);
}

#[tokio::test]
async fn fallback_model_of_a_brief_is_an_allowed_one() {
    let mut fixture = ProjectFixture::working().await;
    fixture.allow_models(&["default", "small"]);
    let options = |model: &str| json!({ "providerConfig": { "fallbackModel": model } });
    let (status, body) = fixture.change_brief(options("large")).await;
    assert_eq!((status, &body["violations"][0]["field"]), (422, &json!("providerConfig.fallbackModel")));
    let (status, body) = fixture.change_brief(options("small")).await;
    assert_eq!(status, 200, "{body}");
    let mut brief = options("large");
    brief["role"] = json!("Tester");
    brief["workstream"] = json!("api");
    let spawn =
        json!({ "brief": brief, "objective": "Test it", "workingDirectory": "/w", "budgetCapUsd": "1" });
    let (status, body) = fixture.send("POST", "/api/agents/spawn", spawn).await;
    let field = json!("brief.providerConfig.fallbackModel");
    assert_eq!((status, &body["violations"][0]["field"]), (422, &field), "{body}");
}

#[tokio::test]
async fn another_adapter_of_a_brief_drives_the_next_session() {
    let fixture = ProjectFixture::working().await;
    let changes = json!({ "adapter": "claude", "providerConfig": { "fallbackModel": "x" }, "modelPreference": "large" });
    assert_eq!(fixture.change_brief(changes).await.0, 200);
    fixture.observe(AgentFact::ContextExhausted).await;
    fixture.end_run().await;
    fixture.react().await;
    let next = fixture.loaded_agent().await.value.current_session_id();
    assert_ne!(next, fixture.session);
    let session = fixture.app.store.session(next).await.unwrap().unwrap();
    assert_eq!((session.settings().adapter.as_str(), session.model_id().as_str()), ("claude", "large"));
    let config = fixture.configuration(next).await;
    assert_eq!(config.adapter_options, json!({ "fallbackModel": "x" }));
}

/// A template reaches the same settings as a brief.
#[tokio::test]
async fn template_that_skips_approvals_starts_no_agent() {
    let fixture = ProjectFixture::working().await;
    let template = json!({
        "name": "Wild", "modelId": "m", "allowedTools": ["Read"], "defaultBudgetCapUsd": "2", "adapter": "acp",
        "adapterOptions": { "agent": "gemini", "args": ["--acp", "--yolo"] },
    });
    let (status, template) = fixture.send("POST", "/api/agents/templates", template).await;
    assert_eq!(status, 201, "{template}");
    let spawn = json!({
        "brief": { "role": "Tester", "workstream": "api" }, "objective": "Test it", "workingDirectory": "/w",
        "templateId": template["id"],
    });
    let (status, body) = fixture.send("POST", "/api/agents/spawn", spawn.clone()).await;
    assert_eq!((status, &body["violations"][0]["field"]), (422, &json!("templateId")), "{body}");
    assert!(body["violations"][0]["message"].as_str().unwrap().contains("adapterOptions.args[1]"), "{body}");
    // The options of the brief replace those of the template.
    let mut safe = spawn;
    safe["brief"]["providerConfig"] = json!({ "agent": "gemini" });
    safe["brief"]["adapter"] = json!("acp");
    safe["allowUnmetered"] = json!(true);
    let (status, body) = fixture.send("POST", "/api/agents/spawn", safe).await;
    assert_eq!(status, 201, "{body}");
}
