//! Events from outside: classified, and a session started for them (S0 8.5 `ClassificationRule`).

use serde_json::{Value, json};

use crate::stage::Stage;

const NOW: &str = "2026-05-01T12:00:00.000Z";

async fn triage() -> (Stage, String) {
    let stage = Stage::at(NOW).await;
    let rules = json!([
        { "matchField": "subject", "matchPattern": "*invoice*", "classifyAs": "invoice", "minPriority": "High" },
        { "matchField": "from", "matchPattern": "*@example.com", "classifyAs": "ours" },
    ]);
    let path = stage.template(json!({ "classificationRules": rules })).await;
    (stage, path)
}

fn event(subject: &str, more: Value) -> Value {
    let mut fields = json!({ "subject": subject, "from": "jo@example.com" });
    if let (Some(fields), Value::Object(more)) = (fields.as_object_mut(), more) {
        fields.extend(more);
    }
    json!({ "event": fields, "workingDirectory": "/w" })
}

#[tokio::test]
async fn the_first_rule_that_fits_says_what_an_event_is_and_starts_a_session() {
    let (stage, path) = triage().await;
    let events = format!("{path}/events");
    let answer =
        stage.post(&events, event("Your INVOICE of May", json!({ "priority": "low" }))).await.expect(201);
    assert_eq!((&answer["matched"], &answer["classifiedAs"]), (&json!(true), &json!("invoice")));
    assert_eq!(answer["priority"], "High", "no less than the rule says");
    let session = &answer["session"];
    assert_eq!(session["labels"], json!({ "classification": "invoice", "priority": "High" }));
    assert_eq!((&session["modelId"], &session["budget"]["hardCapUsd"]), (&json!("small"), &json!("2")));
    assert!(!answer["apiKey"].as_str().unwrap().is_empty());
    let id = session["id"].as_str().unwrap();
    let queue = stage.get(&format!("/sessions/{id}/messages/queue")).await.expect(200);
    let message = &queue["items"][0];
    assert_eq!(
        (&message["source"], &message["priority"]),
        (&json!("Webhook"), &json!("Immediate")),
        "{queue:#}"
    );
    assert!(message["content"].as_str().unwrap().contains("subject: Your INVOICE of May"));

    let answer = stage.post(&events, event("Hello", json!({ "priority": "urgent" }))).await.expect(201);
    assert_eq!((&answer["classifiedAs"], &answer["priority"]), (&json!("ours"), &json!("Urgent")));
    let answer = stage.post(&events, event("Hello", Value::Null)).await.expect(201);
    assert_eq!(answer["session"]["labels"], json!({ "classification": "ours" }));
}

#[tokio::test]
async fn an_event_that_no_rule_fits_starts_nothing() {
    let (stage, path) = triage().await;
    let other = json!({ "event": { "subject": "Hello", "from": "a@b.org" }, "workingDirectory": "/w" });
    let ask =
        async || stage.ask_as("ada", "POST", &format!("{path}/events"), other.clone(), Some("e1")).await;
    assert_eq!(ask().await.expect(200), json!({ "matched": false }));
    assert!(stage.sessions().await.is_empty());
    // The same event is answered alike, although a rule would fit it now.
    let rule = json!({ "matchField": "from", "matchPattern": "*", "classifyAs": "any" });
    stage.post(&format!("{path}/rules"), rule).await.expect(201);
    assert_eq!(ask().await.expect(200), json!({ "matched": false }));
}

#[tokio::test]
async fn an_event_that_comes_twice_starts_one_session() {
    let (stage, path) = triage().await;
    let ask = async |subject: &str| {
        stage.ask_as("ada", "POST", &format!("{path}/events"), event(subject, Value::Null), Some("e1")).await
    };
    let first = ask("invoice").await.expect(201);
    stage.post(&format!("{path}/deactivate"), Value::Null).await.expect(200);
    assert_eq!(ask("invoice").await.expect(201), first);
    assert_eq!(ask("Another invoice").await.code(409), "idempotency-mismatch");
    assert_eq!(stage.sessions().await.len(), 1);
}

#[tokio::test]
async fn what_is_wrong_with_an_event_is_named() {
    let (stage, path) = triage().await;
    let wrong = json!({ "event": { "subject": 7 }, "workingDirectory": "w", "objective": " " });
    let fields = stage.post(&format!("{path}/events"), wrong).await.violations();
    assert_eq!(fields, ["event", "objective", "workingDirectory"]);
    let large = event(&"x".repeat(4000), Value::Null);
    assert_eq!(stage.post(&format!("{path}/events"), large).await.violations(), ["event"]);
    let empty = json!({ "event": {}, "workingDirectory": "/w" });
    assert_eq!(stage.post(&format!("{path}/events"), empty).await.violations(), ["event"]);
    assert!(stage.sessions().await.is_empty());
}

#[tokio::test]
async fn a_deactivated_template_takes_no_events() {
    let (stage, path) = triage().await;
    stage.post(&format!("{path}/deactivate"), Value::Null).await.expect(200);
    let reply = stage.post(&format!("{path}/events"), event("invoice", Value::Null)).await;
    assert_eq!(reply.code(409), "template-inactive");
}
