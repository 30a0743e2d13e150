//! The pool, dead letters, and the operations that need no token.

use reqwest::Method;
use serde_json::{Value, json};

use super::folder;
use super::recorder::{Operation, Recorder};
use crate::scripts::endless;

#[tokio::test]
async fn operations() {
    let mut on = Recorder::start("operations").await;
    let nobody = on.nobody();
    on.send(&nobody, Method::GET, "/healthz", &[], None).await.expect(200);
    let mut document = nobody.api.get("/openapi.json").await.expect(200);
    let file = std::fs::read_to_string(folder().join("../../docs/openapi.json")).unwrap();
    let parsed: Value = serde_json::from_str(&document.text).unwrap();
    assert!(serde_json::to_string_pretty(&parsed).unwrap() + "\n" == file, "it serves docs/openapi.json");
    "<docs/openapi.json>".clone_into(&mut document.text);
    on.record(&nobody, &Method::GET, "/openapi.json", &[], None, &document);

    on.get("/api/agents/pool").await.expect(200);
    on.patch("/api/agents/pool", json!({ "maxConcurrentSessions": 1 })).await.expect(200);
    on.patch("/api/agents/pool", json!({ "maxConcurrentSessions": 0 })).await.expect(422);
    let working = on.started("working", &endless()).await;
    working.until_said("Working.").await;
    // The session waits for the only slot.
    let body = on.work(&endless());
    let reply = on.post("/api/agents/sessions", body).await.expect(202);
    let waiting = on.session_of(&reply);
    on.get(&waiting.path("")).await.expect(200);
    on.get("/api/agents/pool").await.expect(200);
    on.post(&waiting.path("/cancel"), json!({})).await.expect(200);

    let letters = "/api/operations/dead-letters";
    on.get(letters).await.expect(200);
    on.post(&format!("{letters}/events/redrive"), json!({})).await.expect(200);
    on.post(&format!("{letters}/nowhere/redrive"), json!({})).await.expect(404);
    let stranger = on.stranger();
    on.send(&stranger, Method::GET, letters, &[], None).await.expect(404);
    on.finish();
}

/// Of every operation in the OpenAPI document, a success and a refusal are recorded, and no other operations.
#[test]
fn every_operation_is_recorded() {
    let mut recorded_responses = std::collections::BTreeSet::new();
    for file in std::fs::read_dir(folder()).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for heading in text.lines().filter_map(|line| line.strip_prefix("## ")) {
            let (operation, status) = heading.rsplit_once(' ').unwrap();
            let good = status.starts_with(['1', '2', '3']);
            recorded_responses.insert((operation.to_owned(), good));
        }
    }
    let mut missing = Vec::new();
    let operations = Operation::all();
    for operation in &operations {
        if !recorded_responses.contains(&(operation.id.clone(), true)) {
            missing.push(format!("{}: no success", operation.id));
        }
        if operation.secured && !recorded_responses.contains(&(operation.id.clone(), false)) {
            missing.push(format!("{}: no refusal", operation.id));
        }
    }
    for (recorded, _) in &recorded_responses {
        if recorded != "internal" && !operations.iter().any(|operation| operation.id == *recorded) {
            missing.push(format!("{recorded}: not in the document"));
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}
