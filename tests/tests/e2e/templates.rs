//! Sessions started from templates, by hand and by events (S0 8.4 `AgentTemplate`, 8.9). Schedules are tested with a settable clock
//! in `functions/tests/templates`.

use pilothouse_local_keys::DEFAULT_OWNER;
use pilothouse_tests::{Api, Reply, Session};
use reqwest::Method;
use serde_json::{Value, json};

use crate::notifications::until_published;
use crate::scripts::{say, script, short, turn};
use crate::server::Server;

const TEMPLATES: &str = "/api/agents/templates";

async fn template(server: &Server, plays: &Value, more: Value) -> Value {
    let mut body = json!({
        "name": "Triage", "modelId": "small", "allowedTools": ["Read"], "defaultBudgetCapUsd": "2",
        "adapter": "script", "adapterOptions": { "script": plays },
    });
    body.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    server.api().post(TEMPLATES, body).await.expect(201).body
}

fn path(template: &Value, rest: &str) -> String {
    format!("{TEMPLATES}/{}{rest}", template["id"].as_str().unwrap())
}

fn from(server: &Server, template: &Value) -> Value {
    json!({ "workingDirectory": server.work_folder(), "objective": "Keep the promise", "templateId": template["id"] })
}

async fn put(api: &Api, path: &str, body: Value) -> Reply {
    api.send(Method::PUT, path, &[], Some(body.to_string().into_bytes())).await
}

/// The agent gets the prompt and the tools of the template; the session gets its model, budget and adapter.
#[tokio::test]
async fn session_runs_with_the_settings_of_its_template() {
    let server = Server::start(1).await;
    let tool = json!({
        "name": "find", "description": "Finds", "inputSchema": r#"{"type":"object"}"#,
        "serverUri": "https://tools.example.com/mcp",
    });
    let agent_script = script(&[turn(&[say("{{configuration}}")])]);
    let more = json!({ "systemPrompt": "Be brief and kind.", "customToolDefinitions": [tool] });
    let template = template(&server, &agent_script, more).await;
    let session = Session::start(&server.api(), from(&server, &template)).await;
    let view = session.until_status("Idle").await;
    assert_eq!((&view["templateId"], &view["modelId"]), (&template["id"], &json!("small")));
    assert_eq!(view["budget"]["hardCapUsd"], "2");
    let said = session.said().await.join("\n");
    for part in ["Be brief and kind.", "find", "Read", "small"] {
        assert!(said.contains(part), "{part} is missing: {said}");
    }
}

#[tokio::test]
async fn tool_names_are_unique_and_deactivated_template_is_refused() {
    let server = Server::start(1).await;
    let api = server.api();
    let template = template(&server, &short(), Value::Null).await;
    let tool = |server: &str| json!({ "name": "find", "description": "Finds", "inputSchema": "{}", "serverUri": server });
    api.post(&path(&template, "/tools"), tool("https://a.example")).await.expect(201);
    api.post(&path(&template, "/tools"), tool("https://b.example")).await.refused(409, "tool-exists");
    api.delete(&path(&template, "/tools/find")).await.expect(200);

    api.post(&path(&template, "/deactivate"), json!({})).await.expect(200);
    api.post("/api/agents/sessions", from(&server, &template)).await.refused(409, "template-inactive");
    api.post(&path(&template, "/activate"), json!({})).await.expect(200);
    Session::start(&api, from(&server, &template)).await.until_status("Idle").await;
}

/// Other contexts receive the events of a template (S0 8.6).
#[tokio::test]
async fn events_of_a_template_name_it_and_its_owner() {
    let server = Server::start(1).await;
    let api = server.api();
    let template = template(&server, &short(), Value::Null).await;
    put(&api, &path(&template, ""), json!({ "description": "Sorts mail" })).await.expect(200);
    for command in ["/deactivate", "/activate"] {
        api.post(&path(&template, command), json!({})).await.expect(200);
    }
    let (feed, owner) = (api.session("none"), server.owner(DEFAULT_OWNER));
    for (event, field, value) in [
        ("AgentTemplateCreatedEvent", "name", json!("Triage")),
        ("AgentTemplateUpdatedEvent", "part", json!("Content")),
        ("AgentTemplateDeactivatedEvent", "templateId", template["id"].clone()),
        ("AgentTemplateActivatedEvent", "templateId", template["id"].clone()),
    ] {
        let mut detail = json!({ "templateId": template["id"], "ownerId": owner.as_str() });
        detail[field] = value;
        assert_eq!(until_published(&feed, event).await, detail, "{event}");
    }
}

#[tokio::test]
async fn a_schedule_is_set_and_cleared() {
    let server = Server::start(1).await;
    let api = server.api();
    let template = template(&server, &short(), Value::Null).await;
    // Far from any day on which the test may run.
    let schedule = json!({
        "cronExpression": "30 4 29 2 *", "timeZone": "America/New_York",
        "launch": { "workingDirectory": server.work_folder(), "objective": "Tidy up" },
    });
    let set = put(&api, &path(&template, "/schedule"), schedule).await.expect(200).body;
    let next = set["schedule"]["nextRunAt"].as_str().unwrap();
    assert!(next.ends_with("-02-29T09:30:00.000Z"), "half past four in New York in winter: {next}");
    let wrong = json!({ "cronExpression": "* * *", "timeZone": "Mars", "launch": {} });
    let mut fields = put(&api, &path(&template, "/schedule"), wrong).await.expect(422).violated();
    fields.sort();
    assert_eq!(fields, ["cronExpression", "launch.objective", "launch.workingDirectory", "timeZone"]);
    let cleared = api.delete(&path(&template, "/schedule")).await.expect(200).body;
    assert_eq!(cleared["schedule"], Value::Null);
}

/// The agent receives the event as a message after the objective.
#[tokio::test]
async fn matching_event_starts_a_session_with_its_content() {
    let server = Server::start(1).await;
    // The answer is the same whether the message enters the first turn or starts another.
    let mut answers = short();
    answers["onSteer"] = json!("Got: {{message}}");
    answers["onMessage"] = json!([say("Got: {{message}}")]);
    let rule = json!({ "matchField": "subject", "matchPattern": "*invoice*", "classifyAs": "invoice", "minPriority": "High" });
    let template = template(&server, &answers, json!({ "classificationRules": [rule] })).await;
    let events = path(&template, "/events");
    let event =
        |subject: &str| json!({ "event": { "subject": subject }, "workingDirectory": server.work_folder() });
    let none = server.api().post(&events, event("Hello")).await.expect(200).body;
    assert_eq!(none, json!({ "matched": false }));
    let response = server.api().post(&events, event("Your invoice")).await.expect(201).body;
    assert_eq!((&response["classifiedAs"], &response["priority"]), (&json!("invoice"), &json!("High")));
    let session = server.api().session(response["session"]["id"].as_str().unwrap());
    let got = |message: &Value| {
        let text = message["content"].as_str().unwrap_or_default();
        text.starts_with("Got: An event from outside") && text.contains("subject: Your invoice")
    };
    session.until_messages("the event", |all| all.iter().any(got)).await;
    assert_eq!(session.view().await["labels"], json!({ "classification": "invoice", "priority": "High" }));
}
