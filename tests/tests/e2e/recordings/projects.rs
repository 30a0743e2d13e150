//! Projects and their agents.

use serde_json::json;

use super::recorder::Recorder;
use crate::scripts::endless;
use pilothouse_tests::PATIENCE;

#[tokio::test]
async fn projects() {
    let mut on = Recorder::start("projects").await;
    on.get("/api/agents").await.expect(422);
    let shop = json!({
        "name": "Shop", "description": "A shop for tea", "goals": ["Sell tea"], "checkpoints": ["The first order"],
        "constraints": ["Never log card numbers"], "tickConfig": { "mode": "manual" },
        "workstreams": [{ "id": "api", "name": "The HTTP API", "goals": ["Orders"] }, { "id": "docs", "name": "Guides" }],
    });
    let created = on.post("/api/projects", shop.clone()).await.expect(201).body;
    on.post("/api/projects", shop).await.expect(409);
    on.post("/api/projects", json!({ "name": "", "workstreams": [{ "id": "a b" }] })).await.expect(422);
    let project = format!("/api/projects/{}", created["id"].as_str().unwrap());
    on.get(&project).await.expect(200);
    on.get("/api/projects").await.expect(200);
    on.patch(&project, json!({ "description": null, "goals": ["Sell tea", "Ship it"] })).await.expect(200);

    on.post("/api/tick/advance", json!({ "ticks": 3 })).await.expect(200);
    on.post("/api/tick/advance", json!({ "ticks": 0 })).await.expect(422);
    on.get("/api/tick").await.expect(200);
    on.patch(&project, json!({ "trust": { "config": { "floorScore": 200 } } })).await.expect(422);

    // The agent must still work when it receives its changed brief.
    let plays = endless();
    let mut spawn = on.work(&plays);
    let brief = json!({
        "role": "Builder", "description": "Builds the API", "workstream": "api", "readableWorkstreams": ["docs"],
        "constraints": ["Write tests"], "adapter": "script", "providerConfig": spawn["adapterOptions"],
    });
    let body = spawn.as_object_mut().unwrap();
    body.retain(|field, _| ["objective", "workingDirectory", "budgetCapUsd"].contains(&field.as_str()));
    body.insert("brief".to_owned(), brief.clone());
    let spawned = on.post("/api/agents/spawn", spawn.clone()).await.expect(201);
    let working = on.session_of(&spawned);
    working.until_said("Working.").await;
    let agent = format!("/api/agents/{}", spawned.body["agent"]["id"].as_str().unwrap());
    on.get(&agent).await.expect(200);
    on.get("/api/agents").await.expect(200);
    on.get(&format!("{agent}/health")).await.expect(200);
    on.get("/api/portfolio").await.expect(200);
    on.get("/api/briefs/schema").await.expect(200);
    let trust = format!("/api/trust/{}", spawned.body["agent"]["id"].as_str().unwrap());
    on.get(&trust).await.expect(200);
    on.post(&format!("{trust}/simulate"), json!({ "name": "conservative" })).await.expect(200);
    on.get("/api/control-mode").await.expect(200);
    on.put("/api/control-mode", json!({ "mode": "ecosystem" })).await.expect(200);
    let log = format!("{project}/decision-log?limit=1");
    let owner = on.owner().api;
    working
        .until_within(PATIENCE, "the log has the change of the mode", async || {
            let newest = owner.get(&log).await.expect(200).body;
            (newest["items"][0]["type"] == "control_mode").then_some(())
        })
        .await;
    on.get(&log).await.expect(200);
    let mut wrong = spawn.clone();
    wrong["brief"]["workstream"] = json!("web");
    wrong["brief"]["providerConfig"] = json!({ "model": "m" });
    on.post("/api/agents/spawn", wrong).await.expect(422);
    let mut changed = brief;
    changed["constraints"] = json!([]);
    on.patch(&format!("{agent}/brief"), changed).await.expect(200);
    working
        .until_within(PATIENCE, "the agent has its changed brief", async || {
            let shown = owner.get(&agent).await.expect(200).body;
            (shown["contextUse"]["injections"] == 1).then_some(())
        })
        .await;
    on.patch(&project, json!({ "workstreams": [] })).await.expect(409);
    on.post(&format!("{agent}/pause"), json!({})).await.expect(202);
    working.until_status("Paused").await;
    on.get(&format!("{project}/briefing")).await.expect(200);
    on.get(&format!("{project}/briefing?since=2999-01-01T00:00:00Z")).await.expect(422);
    on.post(&format!("{agent}/resume"), json!({})).await.expect(202);
    working.until_status("Running").await;
    on.post(&format!("{agent}/kill"), json!({ "graceTimeoutMs": 50_001 })).await.expect(422);
    on.post(&format!("{agent}/kill"), json!({ "grace": true })).await.expect(202);
    working.until_status("Cancelled").await;
    on.get(&agent).await.expect(200);
    on.get(&format!("{agent}/checkpoints")).await.expect(200);
    on.post(&format!("{agent}/kill"), json!({})).await.expect(409);
    on.post(&format!("{project}/kill"), json!({})).await.expect(200);
    on.post(&format!("{project}/archive"), json!({})).await.expect(200);
    on.post("/api/agents/spawn", spawn).await.expect(409);
    on.post(&format!("{project}/restore"), json!({})).await.expect(200);
    on.finish();
}
