//! The agent API: requests of agents with the API key of their session.

use reqwest::Method;
use serde_json::{Value, json};

use super::recorder::{Caller, Recorder};
use crate::scripts::{endless, short};

async fn post(on: &mut Recorder, agent: &Caller, path: &str, body: Value) -> pilothouse_tests::Reply {
    on.send(agent, Method::POST, path, &[], Some(body)).await
}

#[tokio::test]
async fn agent_api() {
    let mut on = Recorder::start("agent-api").await;
    let session = on.started("session", &endless()).await;
    session.until_said("Working.").await;
    let agent = on.agent(&session);
    let of_session = |rest: &str| format!("/api/agent/sessions/{}{rest}", session.id);

    let task = json!({
        "title": "Cover the parser", "description": "It has no tests.", "priority": "High",
        "tags": ["tests", "parser"], "linkedTaskId": "T-17",
    });
    let key = [("idempotency-key", "task")];
    on.send(&agent, Method::POST, "/api/agent/tasks", &key, Some(task.clone())).await.expect(201);
    on.send(&agent, Method::POST, "/api/agent/tasks", &key, Some(task)).await.expect(201);
    let other = json!({ "title": "Another", "priority": "Low" });
    on.send(&agent, Method::POST, "/api/agent/tasks", &key, Some(other)).await.expect(409);
    post(&mut on, &agent, "/api/agent/tasks", json!({ "title": " ", "priority": "Someday" }))
        .await
        .expect(422);
    let person = json!({ "kind": "Person", "subject": "Ada", "content": "Reviews in the morning." });
    post(&mut on, &agent, "/api/agent/learnings", person).await.expect(201);
    let announcement = json!({ "kind": "Communication", "content": "Releases are announced on Thursdays." });
    post(&mut on, &agent, "/api/agent/learnings", announcement).await.expect(201);
    post(&mut on, &agent, "/api/agent/learnings", json!({ "kind": "Weather" })).await.expect(422);
    post(&mut on, &agent, &of_session("/log"), json!({ "content": "I take the left path." }))
        .await
        .expect(201);

    on.get(&session.path("/tasks")).await.expect(200);
    on.get(&session.path("/logs")).await.expect(200);
    let page = on.get("/api/agents/learnings?limit=1").await.expect(200).body;
    let cursor = page["nextCursor"].as_str().unwrap();
    on.get(&format!("/api/agents/learnings?limit=1&cursor={cursor}")).await.expect(200);
    on.get("/api/agents/learnings?kind=Person&limit=1").await.expect(200);
    on.get(&format!("/api/agents/learnings?sessionId={}&kind=Communication", session.id)).await.expect(200);
    on.get("/api/agents/learnings?kind=Weather").await.expect(422);

    let output = json!({
        "outputLineCount": 12, "filesChanged": 2, "testsAdded": 1, "allTestsPassing": true, "validationNotes": "All green.",
        "commitShas": ["0123456789abcdef0123456789abcdef01234567"],
    });
    post(&mut on, &agent, &of_session("/output"), output).await;
    let output = json!({ "outputLineCount": 1, "filesChanged": 1, "testsAdded": 0, "allTestsPassing": true });
    post(&mut on, &agent, &of_session("/output"), output).await.expect(202);
    on.get(&session.path("")).await.expect(200);
    on.get(&session.path("/activity")).await.expect(200);

    // The handoff ends the session, and a continuation starts.
    let handoff = json!({ "reason": "polluted", "summary": "Half.", "remainingWork": "The rest.", "keyDecisions": "None." });
    post(&mut on, &agent, &of_session("/handoff"), json!({ "reason": "" })).await.expect(422);
    post(&mut on, &agent, &of_session("/handoff"), handoff.clone()).await.expect(202);
    session.until("a continuation", |view| view["continuation"].is_string()).await;
    post(&mut on, &agent, &of_session("/handoff"), handoff).await.expect(401);
    on.finish();
}

/// Memory pills, and the session that consolidates them into the instructions of their skill.
#[tokio::test]
async fn memory_pills() {
    let mut on = Recorder::start("memory-pills").await;
    let body = json!({ "name": "lore", "description": "What we know", "instructions": "Old." });
    let skill = on.owner().api.post("/api/agents/skills", body).await.expect(201).body["id"].clone();
    let skill = skill.as_str().unwrap().to_owned();
    on.name(&skill, "skill");
    let teacher = on.started("teacher", &endless()).await;
    teacher.until_said("Working.").await;
    let agent = on.agent(&teacher);
    let pills = format!("/api/agent/skills/{skill}/memory-pills");
    let mut ids = Vec::new();
    for (name, category) in [("first pill", "Tip"), ("second pill", "Mistake"), ("third pill", "Preference")]
    {
        let body = json!({ "content": format!("The {name}."), "category": category });
        let recorded = post(&mut on, &agent, &pills, body).await;
        if recorded.status == 201 {
            let id = recorded.body["pillId"].as_str().unwrap().to_owned();
            on.name(&id, name);
            ids.push(id);
        }
    }
    post(&mut on, &agent, &pills, json!({ "content": "", "category": "Rumour" })).await.expect(422);
    let hand_in = format!("/api/agent/skills/{skill}/consolidation");
    let proposal = json!({ "pillIds": ids[..1], "updatedInstructions": "New." });
    post(&mut on, &agent, &hand_in, proposal.clone()).await.expect(409);

    let listed = format!("/api/agents/skills/{skill}/memory-pills");
    on.get(&listed).await.expect(200);
    let page = on.get(&format!("{listed}?limit=1")).await.expect(200).body;
    let cursor = page["nextCursor"].as_str().unwrap();
    on.get(&format!("{listed}?limit=1&cursor={cursor}")).await.expect(200);
    on.delete(&format!("{listed}/{}", ids[1])).await.expect(200);
    on.delete(&format!("{listed}/{}", ids[1])).await.expect(409);
    for status in ["Active", "Dismissed", "Consolidated"] {
        on.get(&format!("{listed}?status={status}")).await.expect(200);
    }
    on.get(&format!("{listed}?status=Old")).await.expect(422);

    let consolidate = format!("/api/agents/skills/{skill}/consolidate");
    on.post(&consolidate, json!({ "budgetCapUsd": "0" })).await.expect(422);
    let work = on.work(&short());
    let body = json!({
        "workingDirectory": work["workingDirectory"], "adapterOptions": work["adapterOptions"], "budgetCapUsd": "1",
    });
    let reply = on.post(&consolidate, body.clone()).await.expect(201);
    let session = on.session_of(&reply);
    session.until_status("Idle").await;
    on.post(&consolidate, body).await.expect(409);
    let agent = on.agent(&session);
    post(&mut on, &agent, &hand_in, proposal).await.expect(202);
    on.get(&format!("/api/agents/skills/{skill}")).await.expect(200);
    session.post("/close", json!({})).await.expect(200);
    let path = format!("/api/agents/skills/{skill}");
    let folded = async || {
        let view = session.api.get(&path).await.expect(200).body;
        (view["version"] == 2).then_some(())
    };
    session.until_within(pilothouse_tests::PATIENCE, "the consolidation", folded).await;
    on.get(&path).await.expect(200);
    on.get(&format!("{listed}?status=Consolidated")).await.expect(200);
    on.finish();
}
