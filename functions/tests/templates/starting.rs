//! Starting a session from a template (S0 8.7 `StartAgentSessionCommand`).

use serde_json::{Value, json};

use crate::stage::Stage;

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
async fn a_session_has_the_defaults_of_its_template() {
    let stage = Stage::at(NOW).await;
    let template = json!({
        "adapter": "claude", "planApprovalRequired": false, "executionMode": "SequentialQueue", "warnAtPercent": 60,
        "defaultAutoContinueConfig": {
            "validationCriteria": [{ "type": "LintPassing", "customCommand": "make lint" }],
            "maxContinuations": 2, "isEnabled": true,
        },
    });
    let path = stage.template(template).await;
    let session = stage.post("/sessions", start(&path, Value::Null)).await.expect(201)["session"].take();
    assert_eq!(session["templateId"], path.trim_start_matches("/templates/"));
    assert_eq!((&session["modelId"], &session["adapter"]), (&json!("small"), &json!("claude")));
    assert_eq!(session["executionMode"], "SequentialQueue");
    assert_eq!(
        (&session["budget"]["hardCapUsd"], &session["budget"]["warnAtPercent"]),
        (&json!("2"), &json!(60))
    );
    assert_eq!(session["autoContinueConfig"]["maxContinuations"], 2);

    let own = json!({ "modelId": "large", "budgetCapUsd": "5", "adapter": "script" });
    let session = stage.post("/sessions", start(&path, own)).await.expect(201)["session"].take();
    assert_eq!((&session["modelId"], &session["adapter"]), (&json!("large"), &json!("script")));
    assert_eq!(session["budget"]["hardCapUsd"], "5");
}

#[tokio::test]
async fn skills_come_from_the_template_unless_the_start_names_its_own() {
    let stage = Stage::at(NOW).await;
    let (one, two, three) = (stage.skill("One").await, stage.skill("Two").await, stage.skill("Three").await);
    let path = stage.template(json!({ "defaultSkillIds": [two, one] })).await;
    let skills = async |more: Value| {
        stage.post("/sessions", start(&path, more)).await.expect(201)["session"]["enabledSkillIds"].take()
    };
    assert_eq!(skills(Value::Null).await, json!([two, one]));
    assert_eq!(skills(json!({ "skillIds": [three] })).await, json!([three]));
    assert_eq!(skills(json!({ "skillIds": [] })).await, json!([]));
    // What was deactivated since is not enabled on new sessions.
    stage.post(&format!("/skills/{two}/deactivate"), Value::Null).await.expect(200);
    assert_eq!(skills(Value::Null).await, json!([one]));
    let named = stage.post("/sessions", start(&path, json!({ "skillIds": [two] }))).await;
    assert_eq!(named.violations(), ["skillIds[0]"]);
}

#[tokio::test]
async fn a_deactivated_template_starts_nothing() {
    let stage = Stage::at(NOW).await;
    let path = stage.template(Value::Null).await;
    stage.post(&format!("{path}/deactivate"), Value::Null).await.expect(200);
    assert_eq!(stage.post("/sessions", start(&path, Value::Null)).await.code(409), "template-inactive");
    assert!(stage.sessions().await.is_empty());
    stage.post(&format!("{path}/activate"), Value::Null).await.expect(200);
    stage.post("/sessions", start(&path, Value::Null)).await.expect(201);
}

#[tokio::test]
async fn a_template_that_is_not_there_is_a_wrong_input() {
    let stage = Stage::at(NOW).await;
    let path = stage.template(Value::Null).await;
    let gone = "/templates/01900000-0000-7000-8000-000000000001";
    assert_eq!(stage.post("/sessions", start(gone, Value::Null)).await.violations(), ["templateId"]);
    let of_another = stage.ask_as("eve", "POST", "/sessions", start(&path, Value::Null), None).await;
    assert_eq!(of_another.violations(), ["templateId"]);
}

#[tokio::test]
async fn a_start_is_answered_again_whatever_became_of_the_template() {
    let stage = Stage::at(NOW).await;
    let path = stage.template(Value::Null).await;
    let ask = async || stage.ask_as("ada", "POST", "/sessions", start(&path, Value::Null), Some("k1")).await;
    let first = ask().await.expect(201);
    assert!(!first["apiKey"].as_str().unwrap().is_empty());
    stage.post(&format!("{path}/deactivate"), Value::Null).await.expect(200);
    assert_eq!(ask().await.expect(201), first);
    assert_eq!(stage.sessions().await.len(), 1);
}

/// Prompt and tools are read at each launch: first the template's, then those of the skills (ruling 38).
#[tokio::test]
async fn the_agent_works_with_the_template_as_it_is_at_its_launch() {
    let stage = Stage::at(NOW).await;
    let tool = |server: &str| json!({ "name": "find", "description": "Finds", "inputSchema": "{}", "serverUri": server });
    let skill = stage.skill("Care").await;
    stage.post(&format!("/skills/{skill}/tools"), tool("https://skill.example")).await.expect(201);
    let path = stage
        .template(json!({
            "systemPrompt": "Be brief.", "customToolDefinitions": [tool("https://template.example")],
            "defaultSkillIds": [skill],
        }))
        .await;
    let composed = async |more: Value| {
        let started = stage.post("/sessions", start(&path, more)).await.expect(201);
        let id = started["session"]["id"].as_str().unwrap().parse().unwrap();
        let session = stage.app.store.session(id).await.unwrap().unwrap();
        pilothouse_functions::config::composed(&stage.app, &session).await.unwrap()
    };
    let config = composed(Value::Null).await;
    assert!(config.composed_system_prompt.starts_with("Be brief.\n\n# Skill: Care"));
    assert_eq!(config.allowed_tools, ["Read", "find"]);
    assert_eq!(config.custom_tools.len(), 1);
    assert_eq!(config.custom_tools[0].server_uri.as_str(), "https://template.example", "the template's wins");
    let config = composed(json!({ "allowedTools": ["Bash"] })).await;
    assert_eq!(config.allowed_tools, ["Bash", "find"], "what a start says stands in place of the template's");
    stage.ask("PUT", &path, json!({ "systemPrompt": "Be kind." })).await.expect(200);
    assert!(composed(Value::Null).await.composed_system_prompt.starts_with("Be kind."));
}

#[tokio::test]
async fn without_a_template_the_cap_is_asked_for() {
    let stage = Stage::at(NOW).await;
    let reply = stage.post("/sessions", json!({ "workingDirectory": "/w", "objective": "" })).await;
    assert_eq!(reply.violations(), ["budgetCapUsd", "objective"]);
}
