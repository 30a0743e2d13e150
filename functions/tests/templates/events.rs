//! External events: classification, and the start of a session (S0 8.5 `ClassificationRule`).

use serde_json::{Value, json};

use crate::fixture::TemplatesFixture;

const NOW: &str = "2026-05-01T12:00:00.000Z";

async fn triage() -> (TemplatesFixture, String) {
    let fixture = TemplatesFixture::at(NOW).await;
    let rules = json!([
        { "matchField": "subject", "matchPattern": "*invoice*", "classifyAs": "invoice", "minPriority": "High" },
        { "matchField": "from", "matchPattern": "*@example.com", "classifyAs": "ours" },
    ]);
    let path = fixture.template(json!({ "classificationRules": rules })).await;
    (fixture, path)
}

fn event(subject: &str, more: Value) -> Value {
    let mut fields = json!({ "subject": subject, "from": "jo@example.com" });
    if let (Some(fields), Value::Object(more)) = (fields.as_object_mut(), more) {
        fields.extend(more);
    }
    json!({ "event": fields, "workingDirectory": "/w" })
}

#[tokio::test]
async fn first_matching_rule_classifies_an_event_and_starts_a_session() {
    let (fixture, path) = triage().await;
    let events = format!("{path}/events");
    let response =
        fixture.post(&events, event("Your INVOICE of May", json!({ "priority": "low" }))).await.expect(201);
    assert_eq!((&response["matched"], &response["classifiedAs"]), (&json!(true), &json!("invoice")));
    assert_eq!(response["priority"], "High", "at least the priority of the rule");
    let session = &response["session"];
    assert_eq!(session["labels"], json!({ "classification": "invoice", "priority": "High" }));
    assert_eq!((&session["modelId"], &session["budget"]["hardCapUsd"]), (&json!("small"), &json!("2")));
    assert!(!response["apiKey"].as_str().unwrap().is_empty());
    let id = session["id"].as_str().unwrap();
    let queue = fixture.get(&format!("/sessions/{id}/messages/queue")).await.expect(200);
    let message = &queue["items"][0];
    assert_eq!(
        (&message["source"], &message["priority"]),
        (&json!("Webhook"), &json!("Immediate")),
        "{queue:#}"
    );
    assert!(message["content"].as_str().unwrap().contains("subject: Your INVOICE of May"));

    let response = fixture.post(&events, event("Hello", json!({ "priority": "urgent" }))).await.expect(201);
    assert_eq!((&response["classifiedAs"], &response["priority"]), (&json!("ours"), &json!("Urgent")));
    let response = fixture.post(&events, event("Hello", Value::Null)).await.expect(201);
    assert_eq!(response["session"]["labels"], json!({ "classification": "ours" }));
}

#[tokio::test]
async fn event_without_a_matching_rule_starts_nothing() {
    let (fixture, path) = triage().await;
    let other = json!({ "event": { "subject": "Hello", "from": "a@b.org" }, "workingDirectory": "/w" });
    let ask =
        async || fixture.ask_as("ada", "POST", &format!("{path}/events"), other.clone(), Some("e1")).await;
    assert_eq!(ask().await.expect(200), json!({ "matched": false }));
    assert!(fixture.sessions().await.is_empty());
    // A repeated event receives the same response, although a rule would match now.
    let rule = json!({ "matchField": "from", "matchPattern": "*", "classifyAs": "any" });
    fixture.post(&format!("{path}/rules"), rule).await.expect(201);
    assert_eq!(ask().await.expect(200), json!({ "matched": false }));
}

#[tokio::test]
async fn event_for_an_unmetered_agent_is_refused() {
    let (fixture, path) = triage().await;
    let events = format!("{path}/events");
    fixture.post(&events, event("invoice", Value::Null)).await.expect(201);
    fixture.is_unmetered(&fixture.sessions().await[0]).await;
    let refused = fixture.post(&events, event("invoice", Value::Null)).await;
    assert_eq!(refused.code(409), "unmetered");
    assert_eq!(fixture.sessions().await.len(), 1);
    fixture.ask("PUT", &path, json!({ "allowUnmetered": true })).await.expect(200);
    fixture.post(&events, event("invoice", Value::Null)).await.expect(201);
}

#[tokio::test]
async fn duplicate_event_starts_one_session() {
    let (fixture, path) = triage().await;
    let ask = async |subject: &str| {
        fixture
            .ask_as("ada", "POST", &format!("{path}/events"), event(subject, Value::Null), Some("e1"))
            .await
    };
    let first = ask("invoice").await.expect(201);
    fixture.post(&format!("{path}/deactivate"), Value::Null).await.expect(200);
    assert_eq!(ask("invoice").await.expect(201), first);
    assert_eq!(ask("Another invoice").await.code(409), "idempotency-mismatch");
    assert_eq!(fixture.sessions().await.len(), 1);
}

#[tokio::test]
async fn invalid_event_reports_its_violations() {
    let (fixture, path) = triage().await;
    let wrong = json!({ "event": { "subject": 7 }, "workingDirectory": "w", "objective": " " });
    let fields = fixture.post(&format!("{path}/events"), wrong).await.violations();
    assert_eq!(fields, ["event", "objective", "workingDirectory"]);
    let large = event(&"x".repeat(4000), Value::Null);
    assert_eq!(fixture.post(&format!("{path}/events"), large).await.violations(), ["event"]);
    let empty = json!({ "event": {}, "workingDirectory": "/w" });
    assert_eq!(fixture.post(&format!("{path}/events"), empty).await.violations(), ["event"]);
    assert!(fixture.sessions().await.is_empty());
}

#[tokio::test]
async fn deactivated_template_accepts_no_events() {
    let (fixture, path) = triage().await;
    fixture.post(&format!("{path}/deactivate"), Value::Null).await.expect(200);
    let reply = fixture.post(&format!("{path}/events"), event("invoice", Value::Null)).await;
    assert_eq!(reply.code(409), "template-inactive");
}
