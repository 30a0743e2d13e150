//! Coherence issues of a project.

use reqwest::Method;
use serde_json::{Value, json};

use super::recorder::Recorder;
use crate::scripts::{say, script, turn};

#[tokio::test]
async fn coherence() {
    let mut on = Recorder::start("coherence").await;
    let owner = on.owner();
    let shop = json!({ "name": "Shop", "workstreams": [{ "id": "api", "name": "The API" }, { "id": "docs", "name": "Guides" }],
        "tickConfig": { "mode": "manual" } });
    let project = owner.api.post("/api/projects", shop).await.expect(201).body["id"].clone();
    let project = project.as_str().unwrap();
    on.name(project, "project");
    let upload = |path: &str, workstream: &str| json!({ "path": path, "kind": "document", "workstream": workstream, "text": "Prices are in cents." });
    let guide = owner.api.post("/api/artifacts", upload("guide.md", "docs")).await.expect(201).body;
    let guide = guide["artifactId"].as_str().unwrap();
    on.name(guide, "guide");
    let copy = owner.api.post("/api/artifacts", upload("copy.md", "api")).await.expect(201).body;
    on.name(copy["artifactId"].as_str().unwrap(), "copy");

    let listed = on.get("/api/coherence?severity=low&workstream=docs").await.expect(200).body;
    let duplicate = listed["items"][0]["id"].as_str().unwrap();
    on.get("/api/coherence?state=lost").await.expect(422);
    on.get(&format!("/api/coherence/{duplicate}")).await.expect(200);
    let unknown = "01900000-0000-7000-8000-000000000001";
    on.get(&format!("/api/coherence/{unknown}")).await.expect(404);
    on.get(&format!("/api/projects/{project}/coherence")).await.expect(200);
    on.get(&format!("/api/projects/{unknown}/coherence")).await.expect(404);
    on.post("/api/coherence/audit", json!({})).await.expect(200);
    on.post("/api/coherence/audit", json!({ "projectId": unknown })).await.expect(422);
    let issue = |title: &str| {
        json!({ "title": title, "description": "The guide says cents, the code says dollars.", "category": "contradiction",
            "severity": "high", "affectedArtifactIds": [guide] })
    };
    let reported = on.post("/api/coherence", issue("Units differ")).await.expect(201).body;
    let reported = reported["id"].as_str().unwrap();
    on.post("/api/coherence", json!({ "title": "", "category": "odd" })).await.expect(422);
    let act = async |on: &mut Recorder, id: &str, action: &str, body: Value, status: u16| {
        on.post(&format!("/api/coherence/{id}/{action}"), body).await.expect(status);
    };
    act(&mut on, reported, "confirm", json!({}), 200).await;
    act(&mut on, reported, "dismiss", json!({}), 409).await;
    act(&mut on, reported, "resolve", json!({ "resolution": "The code uses cents." }), 200).await;
    act(&mut on, reported, "confirm", json!({}), 409).await;
    act(&mut on, duplicate, "dismiss", json!({ "reason": "On purpose" }), 200).await;
    act(&mut on, duplicate, "resolve", json!({ "resolution": "Gone" }), 409).await;

    let question = json!({ "question": { "id": "o1", "questions": [
        { "question": "Which colour?", "options": [{ "label": "Red" }, { "label": "Blue" }] },
    ] } });
    let plays = script(&[turn(&[question, say("Thanks.")])]);
    let brief = json!({ "role": "Builder", "workstream": "api", "adapter": "script", "providerConfig": { "script": plays } });
    let mut spawn = on.work(&json!({}));
    let body = spawn.as_object_mut().unwrap();
    body.remove("adapterOptions");
    body.insert("brief".to_owned(), brief);
    let spawned = owner.api.post("/api/agents/spawn", spawn).await.expect(201);
    let session = on.session_of(&spawned);
    on.name(&session.id, "session");
    on.name(spawned.body["agent"]["id"].as_str().unwrap(), "agent");
    session.until_status("WaitingForInput").await;
    let agent = on.agent(&session);
    let flag = format!("/api/agent/sessions/{}/coherence", session.id);
    let own = json!({ "title": "No limit", "description": "Nobody limits the size.", "category": "gap" });
    for (body, status) in [(own.clone(), 201), (own, 200), (issue("Units"), 403)] {
        on.send(&agent, Method::POST, &flag, &[], Some(body)).await.expect(status);
    }
    on.finish();
}
