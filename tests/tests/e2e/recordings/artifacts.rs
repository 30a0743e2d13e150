//! Artifacts and knowledge of a project.

use pilothouse_tests::PATIENCE;
use pilothouse_wire::keys::sha256_hex;
use reqwest::Method;
use serde_json::{Value, json};

use super::recorder::{Caller, Recorder};
use crate::scripts::{say, script, turn};

#[tokio::test]
async fn artifacts() {
    let mut on = Recorder::start("artifacts").await;
    let owner = on.owner();
    let shop = json!({ "name": "Shop", "workstreams": [{ "id": "api", "name": "The API" }, { "id": "docs", "name": "Guides" }],
        "tickConfig": { "mode": "manual" } });
    let project = owner.api.post("/api/projects", shop).await.expect(201).body["id"].clone();
    let project = project.as_str().unwrap();
    on.name(project, "project");

    let guide = |text: &str, expected: u32| {
        json!({ "path": "guide.md", "kind": "document", "workstream": "docs", "mimeType": "text/markdown", "tags": ["tea"],
            "expectedVersion": expected, "text": text })
    };
    let first = on.post("/api/artifacts", guide("# Tea\n", 0)).await.expect(201).body;
    on.post("/api/artifacts", guide("# Tea\n", 0)).await.expect(200);
    on.post("/api/artifacts", guide("# Coffee\n", 1)).await.expect(201);
    on.post("/api/artifacts", guide("# Milk\n", 1)).await.expect(409);
    on.post("/api/artifacts", json!({ "kind": "poem", "path": "../x" })).await.expect(422);
    upload(&mut on, &owner, "/api/artifacts", "docs").await;

    let guide = format!("/api/artifacts/{}", first["artifactId"].as_str().unwrap());
    on.get("/api/artifacts").await.expect(200);
    on.get("/api/artifacts?workstream=docs&kind=document&state=pending&limit=1").await.expect(200);
    on.get("/api/artifacts?state=lost").await.expect(422);
    on.get(&guide).await.expect(200);
    on.get(&format!("{guide}/content")).await.expect(200);
    on.get(&format!("{guide}/versions?limit=1")).await.expect(200);
    on.get(&format!("{guide}/versions/1/content")).await.expect(200);
    on.get(&format!("{guide}/versions/3/content")).await.expect(404);
    on.get(&format!("{guide}/diff")).await.expect(200);
    on.post(&format!("{guide}/approve"), json!({ "version": 1 })).await.expect(409);
    on.post(&format!("{guide}/approve"), json!({ "version": 2 })).await.expect(200);
    let reason = json!({ "reason": "Tea, please" });
    on.post(&format!("{guide}/reject"), reason.clone()).await.expect(409);

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
    let agent_id = spawned.body["agent"]["id"].as_str().unwrap().to_owned();
    on.name(&session.id, "session");
    on.name(&agent_id, "agent");
    session.until_status("WaitingForInput").await;
    let agent = on.agent(&session);
    let own = format!("/api/agent/sessions/{}", session.id);
    let artifacts = format!("{own}/artifacts");
    let orders = json!({ "path": "src/orders.ts", "sourcePath": "src/orders.ts", "kind": "code", "toolCallId": "t1",
        "text": "export const price = 5;\n" });
    let send = async |on: &mut Recorder, method: Method, path: &str, body: Option<Value>| {
        on.send(&agent, method, path, &[], body).await
    };
    let reported = send(&mut on, Method::POST, &artifacts, Some(orders)).await.expect(201).body;
    let outside = json!({ "path": "x", "kind": "code", "workstream": "docs", "text": "x" });
    send(&mut on, Method::POST, &artifacts, Some(outside)).await.expect(403);
    upload(&mut on, &agent, &artifacts, "api").await;
    let reported = reported["artifactId"].as_str().unwrap();
    send(&mut on, Method::GET, &format!("{artifacts}/{reported}?limit=6"), None).await.expect(200);
    let unreadable = format!("{artifacts}/{}", first["artifactId"].as_str().unwrap());
    send(&mut on, Method::GET, &unreadable, None).await.expect(403);
    let open = owner.api.get("/api/decisions").await.expect(200).body["items"][0]["id"].clone();
    let decision = format!("{own}/decisions/{}", open.as_str().unwrap());
    send(&mut on, Method::GET, &decision, None).await.expect(200);

    let search = format!("/api/projects/{project}/search?query=price%20json");
    let found = async || {
        let items = owner.api.get(&search).await.expect(200).body["items"].clone();
        (items.as_array().unwrap().len() == 3).then_some(())
    };
    session.until_within(PATIENCE, "the index", found).await;
    on.get(&search).await.expect(200);
    on.get(&format!("/api/projects/{project}/search")).await.expect(422);
    let words = "/api/agents/search?query=keep%20promise";
    let found = async || {
        let items = owner.api.get(words).await.expect(200).body["items"].clone();
        (!items.as_array().unwrap().is_empty()).then_some(())
    };
    session.until_within(PATIENCE, "the index of sessions", found).await;
    on.get(words).await.expect(200);
    on.get("/api/agents/search?query=the").await.expect(422);
    send(&mut on, Method::GET, &format!("{own}/knowledge?query=price"), None).await.expect(200);
    send(&mut on, Method::GET, &format!("{own}/knowledge?query=the"), None).await.expect(422);
    let snapshot = format!("/api/projects/{project}/snapshot");
    on.get(&format!("{snapshot}?agentId={agent_id}")).await.expect(200);
    on.get(&format!("{snapshot}?agentId={agent_id}&tokens=1")).await.expect(422);
    on.post(&format!("/api/artifacts/{reported}/reject"), reason).await.expect(200);
    on.finish();
}

/// Uploads a content to an address, and completes the upload.
async fn upload(on: &mut Recorder, caller: &Caller, artifacts: &str, workstream: &str) {
    let content = json!({ "from": workstream });
    let text = content.to_string();
    let named = json!({ "contentHash": sha256_hex(text.as_bytes()), "sizeBytes": text.len() });
    let mut complete =
        json!({ "path": format!("{workstream}.json"), "kind": "other", "workstream": workstream });
    complete.as_object_mut().unwrap().extend(named.as_object().unwrap().clone());
    on.send(caller, Method::POST, artifacts, &[], Some(complete.clone())).await.expect(422);
    let uploads = format!("{artifacts}/uploads");
    let link = on.send(caller, Method::POST, &uploads, &[], Some(named)).await.expect(200).body;
    let url = link["url"].as_str().unwrap();
    on.send(caller, Method::PUT, url, &[], Some(Value::from("other"))).await.expect(422);
    on.send(caller, Method::PUT, url, &[], Some(content)).await.expect(204);
    on.send(caller, Method::POST, artifacts, &[], Some(complete)).await.expect(201);
}
