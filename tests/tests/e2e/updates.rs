//! Updates with the typed client keep omitted fields and remove cleared fields.

use pilothouse_client::inputs::{
    AdjustSession, EditMessage, Patch, UpdateBudget, UpdateSkill, UpdateTemplate,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::server::Server;

const TEMPLATES: &str = "/api/agents/templates";

#[tokio::test]
async fn a_field_of_a_template_is_kept_cleared_or_set() {
    let server = Server::start(1).await;
    let body = json!({
        "name": "Triage", "description": "Sorts what comes in", "modelId": "small", "systemPrompt": "Be brief.",
        "allowedTools": ["Read"], "defaultBudgetCapUsd": "2", "adapter": "script", "requestTimeoutSeconds": 60,
        "defaultAnswer": "Go on.", "contextWarnAtPercent": 70, "idleTimeoutSeconds": 30, "pausedTimeoutSeconds": 40,
    });
    let before = server.api().post(TEMPLATES, body).await.expect(201).body;
    let id = before["id"].as_str().unwrap();
    let read = async || server.api().get(&format!("{TEMPLATES}/{id}")).await.expect(200).body;
    let client = server.client();

    client.update_template(id.parse().unwrap(), &UpdateTemplate::default()).await.unwrap();
    assert_eq!(read().await, before, "an empty update changes nothing");

    let change = UpdateTemplate {
        description: Patch::Clear,
        system_prompt: Patch::Set("Be kind.".to_owned()),
        request_timeout_seconds: Patch::Clear,
        default_answer: Patch::Clear,
        idle_timeout_seconds: Patch::Set(0),
        ..UpdateTemplate::default()
    };
    client.update_template(id.parse().unwrap(), &change).await.unwrap();
    let after = read().await;
    let mut expected = before.clone();
    for cleared in ["description", "requestTimeoutSeconds", "defaultAnswer"] {
        assert_ne!(before[cleared], Value::Null, "{cleared}");
        assert_eq!(after[cleared], Value::Null, "{cleared}");
    }
    for same in ["description", "requestTimeoutSeconds", "defaultAnswer", "version", "updatedAt"] {
        expected[same] = after[same].clone();
    }
    expected["systemPrompt"] = json!("Be kind.");
    expected["idleTimeoutSeconds"] = json!(0);
    assert_eq!(after, expected);
}

/// An update omits the fields that the caller leaves out, because `null` clears a field.
#[test]
fn an_update_omits_unset_fields() {
    fn sent(update: &impl Serialize) -> String {
        serde_json::to_string(update).unwrap()
    }
    assert_eq!(sent(&UpdateTemplate::default()), "{}");
    assert_eq!(sent(&UpdateBudget::default()), "{}");
    assert_eq!(sent(&AdjustSession::default()), "{}");
    assert_eq!(sent(&EditMessage::default()), "{}");
    assert_eq!(sent(&UpdateSkill::default()), "{}");
    let budget = UpdateBudget { warn_at_percent: Some(50), ..UpdateBudget::default() };
    assert_eq!(sent(&budget), r#"{"warnAtPercent":50}"#);
    let cleared = UpdateTemplate { adapter: Patch::Clear, ..UpdateTemplate::default() };
    assert_eq!(sent(&cleared), r#"{"adapter":null}"#);
}
