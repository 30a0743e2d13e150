//! Routes of trust and ticks, and changes of a project's configuration.

use pilothouse_domain::Project;
use pilothouse_domain::value::TokenUsage;

use super::*;

impl ProjectFixture {
    fn trust_path(&self, rest: &str) -> String {
        format!("/api/trust/{}{rest}", self.agent)
    }

    /// An approved and a rejected permission. The score is 48.5 then.
    async fn judged() -> Self {
        let fixture = Self::working().await;
        for (request, resolution) in [("q1", "approve"), ("q2", "reject")] {
            fixture.observe(permission(request)).await;
            fixture.resolve(request, json!({ "resolutionType": resolution })).await;
        }
        fixture.react().await;
        fixture
    }

    async fn ok(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, body) = self.send(method, path, body).await;
        assert_eq!(status, 200, "{body:#}");
        body
    }

    /// The fields that are refused, in order.
    async fn refused_fields(&self, method: &str, path: &str, body: Value) -> Vec<String> {
        let (status, body) = self.send(method, path, body).await;
        assert_eq!(status, 422, "{body:#}");
        let violations = body["violations"].as_array().unwrap();
        let mut fields: Vec<_> =
            violations.iter().map(|it| it["field"].as_str().unwrap().to_owned()).collect();
        fields.sort();
        fields
    }

    /// Changes the project, without the reaction.
    async fn update(&self, changes: Value) -> Value {
        self.ok("PATCH", &format!("/api/projects/{}", self.project), changes).await
    }

    async fn react_to_update(&self) {
        let project = self.app.store.any_aggregate::<Project>(self.project).await.unwrap().unwrap();
        self.react_to("project", &self.project.to_string(), project.version).await;
    }
}

#[tokio::test]
async fn trust_shows_score_rates_and_history() {
    let fixture = ProjectFixture::judged().await;
    let trust = fixture.ok("GET", &fixture.trust_path(""), Value::Null).await;
    assert_eq!((&trust["score"], &trust["exactScore"]), (&json!(49), &json!(48.5)));
    assert_eq!((&trust["profile"], &trust["tick"]), (&json!("balanced"), &json!(0)));
    assert_eq!(trust.get("hypotheticalScore"), None);
    let rates = trust["approvals"].as_array().unwrap();
    assert_eq!(rates.len(), 1, "{rates:?}");
    assert_eq!((&rates[0]["actionKind"], &rates[0]["approved"]), (&json!("execute"), &json!(1)));
    assert_eq!((&rates[0]["decided"], &rates[0]["interval"]["lower"]), (&json!(2), &json!(0.094)));
    let history = trust["history"]["items"].as_array().unwrap();
    let outcomes: Vec<_> = history.iter().map(|it| (&it["outcome"], &it["before"], &it["after"])).collect();
    let (rejected, approved) = (json!("human_rejects_tool_call"), json!("human_approves_tool_call"));
    assert_eq!(
        outcomes,
        [(&rejected, &json!(51.5), &json!(48.5)), (&approved, &json!(50), &json!(51.5))],
        "{history:#?}"
    );
    assert_eq!(history[0]["explanation"], "-2 by the table, × 1.5 (risk): -3");
    assert_eq!(history[0]["sessionId"], fixture.session.to_string());
}

#[tokio::test]
async fn history_is_paged_without_loss() {
    let fixture = ProjectFixture::judged().await;
    let mut outcomes = Vec::new();
    let mut path = fixture.trust_path("?limit=1");
    for _ in 0..5 {
        let page = fixture.ok("GET", &path, Value::Null).await["history"].clone();
        outcomes.extend(page["items"].as_array().unwrap().iter().map(|it| it["outcome"].clone()));
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        path = fixture.trust_path(&format!("?limit=1&cursor={cursor}"));
    }
    assert_eq!(outcomes, ["human_rejects_tool_call", "human_approves_tool_call"]);
    assert_eq!(
        fixture.refused_fields("GET", &fixture.trust_path("?cursor=x"), Value::Null).await,
        ["cursor"]
    );
}

#[tokio::test]
async fn trust_of_other_owners_does_not_exist() {
    let fixture = ProjectFixture::judged().await;
    for (method, path, body) in
        [("GET", fixture.trust_path(""), Value::Null), ("POST", fixture.trust_path("/simulate"), json!({}))]
    {
        let (status, body) = fixture.send_as("eve", method, &path, body).await;
        assert_eq!(status, 404, "{body}");
    }
    let path = format!("/api/tick?projectId={}", fixture.project);
    let (status, body) = fixture.send_as("eve", "GET", &path, Value::Null).await;
    assert_eq!(status, 422, "{body}");
}

#[tokio::test]
async fn simulation_replays_the_history_and_changes_nothing() {
    let fixture = ProjectFixture::judged().await;
    let before = fixture.loaded_agent().await;
    let path = fixture.trust_path("/simulate");
    let simulated = fixture.ok("POST", &path, json!({ "name": "conservative" })).await;
    // 30, then 0.75 × 1.5 for the approval, and -2 × 1.5 × 1.5 for the rejection.
    let scores = ["currentScore", "finalScore", "lowest", "highest"].map(|field| simulated[field].clone());
    assert_eq!(scores, [json!(48.5), json!(26.625), json!(26.625), json!(31.125)]);
    assert_eq!((&simulated["outcomeCount"], &simulated["truncated"]), (&json!(2), &json!(false)));
    assert_eq!(simulated["belowAdaptiveThreshold"], 2);
    let same = fixture.ok("POST", &path, json!({})).await;
    assert_eq!(same["finalScore"], 48.5, "the project's own configuration repeats the history");
    let wrong = json!({ "config": { "floorScore": 200, "colour": 1 } });
    let fields = fixture.refused_fields("POST", &path, wrong).await;
    assert_eq!(fields, ["config.colour", "config.floorScore", "config.floorScore"]);
    assert_eq!(fixture.loaded_agent().await, before);
}

#[tokio::test]
async fn changed_configuration_reaches_the_agents_once() {
    let fixture = ProjectFixture::judged().await;
    let trust = json!({ "name": "conservative", "config": { "calibrationMode": true } });
    let updated = fixture.update(json!({ "trust": trust })).await;
    assert_eq!(
        (&updated["trust"]["name"], &updated["tickConfig"]["mode"]),
        (&json!("conservative"), &json!("wall_clock"))
    );
    let shown = fixture.ok("GET", &fixture.trust_path(""), Value::Null).await;
    assert_eq!(
        (&shown["exactScore"], &shown["hypotheticalScore"]),
        (&json!(48.5), &json!(48.5)),
        "it applies before the reaction"
    );
    let before = fixture.loaded_agent().await.version;
    fixture.react_to_update().await;
    fixture.react_to_update().await;
    assert_eq!(fixture.loaded_agent().await.version, before + 1);
    fixture.observe(permission("q3")).await;
    fixture.resolve("q3", json!({ "resolutionType": "reject" })).await;
    fixture.react().await;
    let shown = fixture.ok("GET", &fixture.trust_path(""), Value::Null).await;
    assert_eq!(
        (&shown["exactScore"], &shown["hypotheticalScore"]),
        (&json!(48.5), &json!(44)),
        "the score in force is frozen"
    );
    let version = fixture.loaded_agent().await.version;
    fixture.update(json!({ "goals": ["Sell tea"], "trust": updated["trust"] })).await;
    fixture.react_to_update().await;
    assert_eq!(fixture.loaded_agent().await.version, version, "the configuration is the same");
}

#[tokio::test]
async fn projects_name_every_violation_of_trust_and_ticks() {
    let fixture = ProjectFixture::spawned().await;
    let wrong = json!({
        "name": "Other",
        "trust": { "name": "reckless", "config": { "floorScore": 90, "ceilingScore": 10 }, "negativeDeltaMultiplier": 11 },
        "tickConfig": { "intervalMs": 1 },
    });
    let expected = ["tickConfig", "trust.config.floorScore", "trust.name", "trust.negativeDeltaMultiplier"];
    assert_eq!(fixture.refused_fields("POST", "/api/projects", wrong.clone()).await, expected);
    let path = format!("/api/projects/{}", fixture.project);
    assert_eq!(fixture.refused_fields("PATCH", &path, wrong).await, expected);
}

#[tokio::test]
async fn ticks_are_advanced_in_manual_mode_only() {
    let fixture = ProjectFixture::working().await;
    fixture.advance(std::time::Duration::from_secs(3));
    let shown = fixture.ok("GET", "/api/tick", Value::Null).await;
    assert_eq!((&shown["currentTick"], &shown["isRunning"]), (&json!(3), &json!(true)));
    assert_eq!(shown["activeAgents"], json!([fixture.agent.to_string()]));
    let (status, body) = fixture.send("POST", "/api/tick/advance", json!({})).await;
    assert_eq!((status, &body["code"]), (409, &json!("ticks-not-manual")));

    fixture.update(json!({ "tickConfig": { "mode": "manual" } })).await;
    let advanced = fixture.ok("POST", "/api/tick/advance", json!({ "ticks": 5 })).await;
    assert_eq!((&advanced["currentTick"], &advanced["mode"]), (&json!(8), &json!("manual")));
    fixture.react_to_update().await;
    fixture.advance(std::time::Duration::from_hours(1));
    let advanced = fixture.ok("POST", "/api/tick/advance", json!({})).await;
    assert_eq!((&advanced["currentTick"], &advanced["isRunning"]), (&json!(9), &json!(false)));
    assert_eq!(fixture.refused_fields("POST", "/api/tick/advance", json!({ "ticks": 0 })).await, ["ticks"]);

    let (status, _) = fixture.send("POST", "/api/projects", json!({ "name": "Second" })).await;
    assert_eq!(status, 201);
    assert_eq!(fixture.refused_fields("POST", "/api/tick/advance", json!({})).await, ["projectId"]);
    assert_eq!(fixture.refused_fields("GET", "/api/tick", Value::Null).await, ["projectId"]);
}

#[tokio::test]
async fn clock_takes_over_the_mode_of_its_project() {
    let fixture = ProjectFixture::working().await;
    let config =
        async || fixture.app.store.tick_clock(fixture.project).await.unwrap().unwrap().value.config();
    fixture.update(json!({ "tickConfig": { "intervalMs": 100 } })).await;
    assert_eq!(config().await.interval_ms, 1000);
    fixture.react_to_update().await;
    assert_eq!(config().await.interval_ms, 100);
    fixture.advance(std::time::Duration::from_secs(1));
    assert_eq!(fixture.ok("GET", "/api/tick", Value::Null).await["currentTick"], 10);
}

#[tokio::test]
async fn bad_mcp_servers_name_every_violation() {
    let fixture = ProjectFixture::working().await;
    let tool = |name: &str| json!({ "name": name, "description": "Looks it up", "inputSchema": "{}" });
    let brief = |servers: Value| json!({ "role": "Builder", "workstream": "api", "allowedTools": ["lookup", "Read"], "mcpServers": servers });
    let path = format!("/api/agents/{}/brief", fixture.agent);
    let one = json!([{ "uri": "https://tools.example.com/mcp", "tools": [tool("lookup")] }]);
    let agent = fixture.ok("PATCH", &path, brief(one.clone())).await;
    assert_eq!(agent["brief"]["mcpServers"], one);
    let servers = json!([
        { "uri": "https://a.example.com", "tools": [tool("lookup"), tool("lookup"), tool("other")] },
        { "uri": "https://b.example.com", "tools": [] },
    ]);
    let expected = ["mcpServers[0].tools[1].name", "mcpServers[0].tools[2].name", "mcpServers[1].tools"];
    assert_eq!(fixture.refused_fields("PATCH", &path, brief(servers)).await, expected);
    let mut wrong = tool("lookup");
    wrong["inputSchema"] = json!("[]");
    let servers = json!([{ "uri": "tools", "tools": [wrong], "env": {} }]);
    let expected = ["mcpServers[0].env", "mcpServers[0].tools[0].inputSchema", "mcpServers[0].uri"];
    assert_eq!(fixture.refused_fields("PATCH", &path, brief(servers)).await, expected);
}

#[tokio::test]
async fn schema_of_a_brief_names_its_fields() {
    let fixture = ProjectFixture::working().await;
    let schema = fixture.ok("GET", "/api/briefs/schema", Value::Null).await;
    assert_eq!(
        (&schema["required"], &schema["additionalProperties"]),
        (&json!(["role", "workstream"]), &json!(false))
    );
    let fields = schema["properties"].as_object().unwrap();
    for field in ["escalationProtocol", "guardrailPolicy", "mcpServers", "providerConfig", "secretRefs"] {
        assert!(fields.contains_key(field), "{field}");
    }
    assert!(!fields.contains_key("projectBrief"), "what the API refuses is not in the schema");
}

#[tokio::test]
async fn start_without_an_adapter_says_what_to_install() {
    let mut fixture = ProjectFixture::spawned().await;
    let mut session = json!({ "objective": "Build it", "workingDirectory": "/w", "budgetCapUsd": "5" });
    let (_, started) = fixture.send("POST", "/api/agents/sessions", session.clone()).await;
    assert_eq!(started["session"]["adapter"], "script", "the default of this server: {started}");

    fixture.set_default_adapter(None);
    let (status, body) = fixture.send("POST", "/api/agents/sessions", session.clone()).await;
    let violation = &body["violations"][0];
    assert_eq!((status, &violation["field"]), (422, &json!("adapter")), "{body}");
    assert!(violation["message"].as_str().unwrap().contains("Install Claude Code"), "{body}");

    session["adapter"] = json!("native");
    let (_, started) = fixture.send("POST", "/api/agents/sessions", session).await;
    assert_eq!(started["session"]["adapter"], "native", "{started}");
}

/// The summary of a session has its spend, and its duration until its end (S0 8.7).
#[tokio::test]
async fn history_has_cost_and_duration_of_a_session() {
    let fixture = ProjectFixture::working().await;
    fixture.spend("1.5").await;
    fixture.advance(std::time::Duration::from_secs(65));
    fixture.complete_turn(false).await;
    fixture.ok("POST", &fixture.session_path("/close"), json!({})).await;
    fixture.advance(std::time::Duration::from_mins(1));
    for list in ["/api/agents/sessions", "/api/agents/sessions/history"] {
        let page = fixture.ok("GET", list, Value::Null).await;
        let summary = &page["items"][0];
        assert_eq!(summary["id"], json!(fixture.session), "{list}");
        assert_eq!(
            (&summary["totalCostUsd"], &summary["elapsedSeconds"]),
            (&json!("1.5"), &json!(65)),
            "{list}"
        );
    }
}

/// The costs of sessions can be added up by model, label and project from their list alone (decision 31).
#[tokio::test]
async fn list_has_project_tokens_and_costs_by_model() {
    let fixture = ProjectFixture::working().await;
    let tokens =
        TokenUsage { input_tokens: 10, output_tokens: 2, cache_read_tokens: 30, cache_write_tokens: 4 };
    fixture.use_model("large", "0.4", tokens).await;
    fixture.use_model("small", "0.05", TokenUsage::default()).await;
    fixture.use_model("large", "0.5", tokens).await;
    let none = json!({ "inputTokens": 0, "outputTokens": 0, "cacheReadTokens": 0, "cacheWriteTokens": 0 });
    let large = json!({ "inputTokens": 10, "outputTokens": 2, "cacheReadTokens": 30, "cacheWriteTokens": 4 });
    let metrics = fixture.ok("GET", &fixture.session_path("/metrics"), Value::Null).await;
    let page = fixture.ok("GET", "/api/agents/sessions", Value::Null).await;
    let summary = &page["items"][0];
    assert_eq!(summary["project"]["projectId"], json!(fixture.project));
    for usage in [&metrics, summary] {
        assert_eq!(usage["totalCostUsd"], "0.55");
        assert_eq!(usage["costUsdByModel"], json!({ "large": "0.5", "small": "0.05" }), "{usage:#}");
        assert_eq!(usage["tokenUsageByModel"], json!({ "large": large, "small": none }), "{usage:#}");
        assert_eq!(usage.get("unattributedCostUsd"), None, "{usage:#}");
    }
}
