//! Skills with their tools and subagents.

use reqwest::Method;
use serde_json::{Value, json};

use super::recorder::Recorder;

fn tool(name: &str) -> Value {
    json!({
        "name": name,
        "description": "Runs it",
        "inputSchema": r#"{"type":"object","properties":{"path":{"type":"string"}}}"#,
        "serverUri": "https://tools.example.com/mcp",
    })
}

#[tokio::test]
async fn skills() {
    let mut on = Recorder::start("skills").await;
    let path = "/api/agents/skills";
    let sub_agent = json!({
        "name": "runner", "description": "Runs tests", "modelId": "small", "instructions": "Run.",
        "toolDefinitions": [tool("run")],
    });
    let body = json!({
        "name": "testing", "description": "How we test", "instructions": "Test first.",
        "toolDefinitions": [tool("lint")], "subAgentDefinitions": [sub_agent],
    });
    let (owner, key) = (on.owner(), [("idempotency-key", "skill")]);
    let created = on.send(&owner, Method::POST, path, &key, Some(body.clone())).await.expect(201).body;
    on.send(&owner, Method::POST, path, &key, Some(body.clone())).await.expect(201);
    on.post(path, body).await.expect(409);
    let mut wrong = tool("");
    wrong["inputSchema"] = json!(r#"{"type":"text"}"#);
    wrong["serverUri"] = json!("tools.example.com");
    let wrong =
        json!({ "name": "x".repeat(101), "description": "", "toolDefinitions": [wrong], "colour": 1 });
    on.post(path, wrong).await.expect(422);
    on.post(path, json!({ "name": "Alpha", "description": "Another" })).await.expect(201);

    let skill = format!("{path}/{}", created["id"].as_str().unwrap());
    on.get(&skill).await.expect(200);
    on.post(&format!("{skill}/tools"), tool("format")).await.expect(201);
    let mut other = tool("format");
    other["serverUri"] = json!("https://other.example.com/mcp");
    on.post(&format!("{skill}/tools"), other).await.expect(409);
    on.delete(&format!("{skill}/tools/lint")).await.expect(200);
    on.delete(&format!("{skill}/tools/lint")).await.expect(404);
    let other = json!({ "name": "other", "description": "Does nothing", "modelId": "m" });
    on.post(&format!("{skill}/sub-agents"), other).await.expect(201);
    on.post(&format!("{skill}/sub-agents"), json!({ "name": "" })).await.expect(422);
    on.delete(&format!("{skill}/sub-agents/runner")).await.expect(200);
    on.delete(&format!("{skill}/sub-agents/runner")).await.expect(404);
    on.put(&skill, json!({ "name": "tests", "instructions": "Test much." })).await.expect(200);
    on.put(&skill, json!({ "name": "Alpha" })).await.expect(409);
    on.put(&skill, json!({ "name": null, "description": null })).await;
    on.put(&skill, json!({})).await;
    let (stale, body) = ([("if-match", "\"1\"")], json!({ "description": "late" }));
    on.send(&owner, Method::PUT, &skill, &stale, Some(body)).await.expect(412);
    on.post(&format!("{skill}/deactivate"), json!({})).await.expect(200);
    on.get(&format!("{path}?isActive=false")).await.expect(200);
    on.get(&format!("{path}?isActive=perhaps")).await.expect(422);
    on.post(&format!("{skill}/activate"), json!({})).await.expect(200);
    let page = on.get(&format!("{path}?limit=1")).await.expect(200).body;
    let cursor = page["nextCursor"].as_str().unwrap();
    on.get(&format!("{path}?limit=1&cursor={cursor}")).await.expect(200);
    on.get(&format!("{path}?isActive=true&limit=1&cursor={cursor}")).await.expect(422);
    let stranger = on.stranger();
    on.send(&stranger, Method::GET, &skill, &[], None).await.expect(404);
    on.finish();
}
