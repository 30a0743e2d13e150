//! Templates with their rules and schedules, and sessions that are started by events.

use serde_json::json;

use super::recorder::Recorder;
use crate::scripts::short;

#[tokio::test]
async fn templates() {
    let mut on = Recorder::start("templates").await;
    let path = "/api/agents/templates";
    let body = json!({ "name": "Formatting", "description": "How we format" });
    let skill = on.owner().api.post("/api/agents/skills", body).await.expect(201).body["id"].clone();
    let skill = skill.as_str().unwrap().to_owned();
    on.name(&skill, "skill");
    let tool = |name: &str| json!({ "name": name, "description": "Finds", "inputSchema": r#"{"type":"object"}"#, "serverUri": "https://tools.example.com/mcp" });
    let body = json!({
        "name": "Triage", "description": "Sorts what comes in", "modelId": "small", "systemPrompt": "Be brief and kind.",
        "allowedTools": ["Read"], "defaultBudgetCapUsd": "2", "warnAtPercent": 80, "allowUnmetered": true,
        "customToolDefinitions": [tool("find")], "defaultSkillIds": [skill], "planApprovalRequired": false,
        "defaultAutoContinueConfig": { "maxContinuations": 2, "validationCriteria": [{ "type": "DeliverablesComplete" }] },
        "classificationRules": [{ "matchField": "subject", "matchPattern": "*invoice*", "classifyAs": "invoice", "minPriority": "High" }],
        "executionMode": "Standalone", "adapter": "script", "adapterOptions": { "script": short() },
        "requestTimeoutSeconds": 60, "defaultAnswer": "Go on.", "contextWarnAtPercent": 70, "contextPolicy": "handoff",
        "idleTimeoutSeconds": 30, "pausedTimeoutSeconds": 40,
    });
    let refused = on.post(path, body.clone()).await;
    assert_eq!(refused.status, 201, "{}", refused.text);
    let template = format!("{path}/{}", refused.body["id"].as_str().unwrap());
    on.post(path, json!({ "name": "", "modelId": "", "allowedTools": [""], "defaultBudgetCapUsd": "x" }))
        .await
        .expect(422);
    on.get(&template).await.expect(200);
    on.put(&template, json!({ "description": "Sorts", "systemPrompt": null, "defaultAutoContinueConfig": null, "warnAtPercent": null })).await;
    on.put(&template, json!({})).await;
    on.post(&format!("{template}/tools"), tool("more")).await.expect(201);
    let mut other = tool("more");
    other["serverUri"] = json!("https://other.example.com/mcp");
    on.post(&format!("{template}/tools"), other).await.expect(409);
    on.delete(&format!("{template}/tools/find")).await.expect(200);
    on.delete(&format!("{template}/tools/find")).await.expect(404);
    on.post(&format!("{template}/skills/{skill}"), json!({})).await.expect(200);
    on.delete(&format!("{template}/skills/{skill}")).await.expect(200);
    on.delete(&format!("{template}/skills/{skill}")).await;
    let rule = json!({ "matchField": "from", "matchPattern": "*@example.com", "classifyAs": "mail" });
    let added = on.post(&format!("{template}/rules"), rule).await.expect(201).body;
    on.post(&format!("{template}/rules"), json!({ "matchField": "" })).await.expect(422);
    let rule = added["classificationRules"][1]["id"].as_str().unwrap().to_owned();
    on.delete(&format!("{template}/rules/{rule}")).await.expect(200);
    on.delete(&format!("{template}/rules/{rule}")).await.expect(404);
    // February 29, so that the schedule is not due while the test runs.
    let schedule = json!({
        "cronExpression": "30 4 29 2 *", "timeZone": "America/New_York", "isEnabled": true,
        "launch": { "workingDirectory": on.server.work_folder(), "objective": "Tidy up", "name": "Nightly" },
    });
    on.put(&format!("{template}/schedule"), schedule).await.expect(200);
    on.put(
        &format!("{template}/schedule"),
        json!({ "cronExpression": "* * *", "timeZone": "Mars", "launch": {} }),
    )
    .await
    .expect(422);
    on.delete(&format!("{template}/schedule")).await.expect(200);
    on.delete(&format!("{template}/schedule")).await;

    let event = |subject: &str| json!({ "event": { "subject": subject, "from": "ada@example.com" } });
    let work = on.server.work_folder();
    let events = format!("{template}/events");
    on.post(&events, event("Hello")).await;
    let mut matching = event("Your invoice");
    matching["workingDirectory"] = json!(work);
    let reply = on.post(&events, matching.clone()).await.expect(201);
    let session = on.session_of(&reply);
    session.until_status("Idle").await;
    matching["event"]["subject"] = json!("Hello");
    on.post(&events, matching.clone()).await.expect(200);
    on.post(&format!("{template}/deactivate"), json!({})).await.expect(200);
    on.post(&events, matching).await.expect(409);
    on.get(&format!("{path}?isActive=false")).await.expect(200);
    on.post(&format!("{template}/activate"), json!({})).await.expect(200);
    on.post(
        path,
        json!({ "name": "Other", "modelId": "m", "allowedTools": ["Read"], "defaultBudgetCapUsd": "1" }),
    )
    .await
    .expect(201);
    let page = on.get(&format!("{path}?limit=1")).await.expect(200).body;
    let cursor = page["nextCursor"].as_str().unwrap();
    on.get(&format!("{path}?limit=1&cursor={cursor}")).await.expect(200);
    on.finish();
}
