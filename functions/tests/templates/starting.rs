//! Starting a session from a template (S0 8.7 `StartAgentSessionCommand`).

use serde_json::{Value, json};

use crate::fixture::TemplatesFixture;

const NOW: &str = "2026-05-01T12:00:00.000Z";

fn start(path: &str, more: Value) -> Value {
    let id = path.trim_start_matches("/templates/");
    let mut all = json!({ "workingDirectory": "/w", "objective": "Do it", "templateId": id });
    if let (Some(all), Value::Object(more)) = (all.as_object_mut(), more) {
        all.extend(more);
    }
    all
}

#[tokio::test]
async fn session_gets_the_defaults_of_its_template() {
    let fixture = TemplatesFixture::at(NOW).await;
    let template = json!({
        "adapter": "claude", "planApprovalRequired": false, "executionMode": "SequentialQueue", "warnAtPercent": 60,
        "defaultAutoContinueConfig": {
            "validationCriteria": [{ "type": "LintPassing", "customCommand": "make lint" }],
            "maxContinuations": 2, "isEnabled": true,
        },
    });
    let path = fixture.template(template).await;
    let session = fixture.post("/sessions", start(&path, Value::Null)).await.expect(201)["session"].take();
    assert_eq!(session["templateId"], path.trim_start_matches("/templates/"));
    assert_eq!((&session["modelId"], &session["adapter"]), (&json!("small"), &json!("claude")));
    assert_eq!(session["executionMode"], "SequentialQueue");
    assert_eq!(
        (&session["budget"]["hardCapUsd"], &session["budget"]["warnAtPercent"]),
        (&json!("2"), &json!(60))
    );
    assert_eq!(session["autoContinueConfig"]["maxContinuations"], 2);

    let own = json!({ "modelId": "large", "budgetCapUsd": "5", "adapter": "script" });
    let session = fixture.post("/sessions", start(&path, own)).await.expect(201)["session"].take();
    assert_eq!((&session["modelId"], &session["adapter"]), (&json!("large"), &json!("script")));
    assert_eq!(session["budget"]["hardCapUsd"], "5");
}

#[tokio::test]
async fn skills_of_the_start_replace_those_of_the_template() {
    let fixture = TemplatesFixture::at(NOW).await;
    let (one, two, three) =
        (fixture.skill("One").await, fixture.skill("Two").await, fixture.skill("Three").await);
    let path = fixture.template(json!({ "defaultSkillIds": [two, one] })).await;
    let skills = async |more: Value| {
        fixture.post("/sessions", start(&path, more)).await.expect(201)["session"]["enabledSkillIds"].take()
    };
    assert_eq!(skills(Value::Null).await, json!([two, one]));
    assert_eq!(skills(json!({ "skillIds": [three] })).await, json!([three]));
    assert_eq!(skills(json!({ "skillIds": [] })).await, json!([]));
    // Skills that were deactivated since are not enabled on new sessions.
    fixture.post(&format!("/skills/{two}/deactivate"), Value::Null).await.expect(200);
    assert_eq!(skills(Value::Null).await, json!([one]));
    let named = fixture.post("/sessions", start(&path, json!({ "skillIds": [two] }))).await;
    assert_eq!(named.violations(), ["skillIds[0]"]);
}

#[tokio::test]
async fn a_deactivated_template_starts_nothing() {
    let fixture = TemplatesFixture::at(NOW).await;
    let path = fixture.template(Value::Null).await;
    fixture.post(&format!("{path}/deactivate"), Value::Null).await.expect(200);
    assert_eq!(fixture.post("/sessions", start(&path, Value::Null)).await.code(409), "template-inactive");
    assert!(fixture.sessions().await.is_empty());
    fixture.post(&format!("{path}/activate"), Value::Null).await.expect(200);
    fixture.post("/sessions", start(&path, Value::Null)).await.expect(201);
}

#[tokio::test]
async fn unknown_template_is_an_input_violation() {
    let fixture = TemplatesFixture::at(NOW).await;
    let path = fixture.template(Value::Null).await;
    let gone = "/templates/01900000-0000-7000-8000-000000000001";
    assert_eq!(fixture.post("/sessions", start(gone, Value::Null)).await.violations(), ["templateId"]);
    let of_another = fixture.ask_as("eve", "POST", "/sessions", start(&path, Value::Null), None).await;
    assert_eq!(of_another.violations(), ["templateId"]);
}

#[tokio::test]
async fn repeated_start_gets_its_response_after_template_changes() {
    let fixture = TemplatesFixture::at(NOW).await;
    let path = fixture.template(Value::Null).await;
    let ask =
        async || fixture.ask_as("ada", "POST", "/sessions", start(&path, Value::Null), Some("k1")).await;
    let first = ask().await.expect(201);
    assert!(!first["apiKey"].as_str().unwrap().is_empty());
    fixture.post(&format!("{path}/deactivate"), Value::Null).await.expect(200);
    assert_eq!(ask().await.expect(201), first);
    assert_eq!(fixture.sessions().await.len(), 1);
}

/// Prompt and tools are read at each launch: first those of the template, then those of the skills (decision 38).
#[tokio::test]
async fn agent_gets_the_template_as_of_its_launch() {
    let fixture = TemplatesFixture::at(NOW).await;
    let tool = |server: &str| json!({ "name": "find", "description": "Finds", "inputSchema": "{}", "serverUri": server });
    let skill = fixture.skill("Care").await;
    fixture.post(&format!("/skills/{skill}/tools"), tool("https://skill.example")).await.expect(201);
    let path = fixture
        .template(json!({
            "systemPrompt": "Be brief.", "customToolDefinitions": [tool("https://template.example")],
            "defaultSkillIds": [skill],
        }))
        .await;
    let composed = async |more: Value| {
        let started = fixture.post("/sessions", start(&path, more)).await.expect(201);
        let id = started["session"]["id"].as_str().unwrap().parse().unwrap();
        let session = fixture.app.store.session(id).await.unwrap().unwrap();
        pilothouse_app::session_config::composed(&fixture.app, &session).await.unwrap()
    };
    let config = composed(Value::Null).await;
    assert!(config.composed_system_prompt.starts_with("Be brief.\n\n# Skill: Care"));
    assert_eq!(config.allowed_tools, ["Read", "find"]);
    assert_eq!(config.custom_tools.len(), 1);
    assert_eq!(config.custom_tools[0].server_uri.as_str(), "https://template.example", "the template wins");
    let config = composed(json!({ "allowedTools": ["Bash"] })).await;
    assert_eq!(config.allowed_tools, ["Bash", "find"], "the start request overrides the template");
    fixture.ask("PUT", &path, json!({ "systemPrompt": "Be kind." })).await.expect(200);
    assert!(composed(Value::Null).await.composed_system_prompt.starts_with("Be kind."));
}

#[tokio::test]
async fn start_without_a_template_requires_a_cap() {
    let fixture = TemplatesFixture::at(NOW).await;
    let reply = fixture.post("/sessions", json!({ "workingDirectory": "/w", "objective": "" })).await;
    assert_eq!(reply.violations(), ["budgetCapUsd", "objective"]);
}
