//! Sessions: start, all commands that change a session, and lists.

use pilothouse_tests::{PATIENCE, Session};
use reqwest::Method;
use serde_json::{Value, json};

use super::recorder::Recorder;
use crate::scripts::{endless, say, script, short, turn, with_output, works_until_message};

#[tokio::test]
async fn sessions() {
    let mut on = Recorder::start("sessions").await;
    on.get("/healthz").await.expect(200);
    started(&mut on).await;
    stopped(&mut on).await;
    adjusted(&mut on).await;
    reviewed(&mut on).await;
    retried(&mut on).await;
    listed(&mut on).await;
    on.finish();
}

/// A start with all fields, its repetition with the same idempotency key, and refused starts.
async fn started(on: &mut Recorder) {
    let mut body = on.work(&works_until_message());
    let more = json!({
        "name": "All fields", "modelId": "small", "thinkingLevel": "high", "adapter": "script",
        "allowedTools": ["Read"], "executionMode": "Standalone", "labels": { "team": "blue" },
        "planApprovalRequired": true, "requestTimeoutSeconds": 60, "defaultAnswer": "Go on.",
        "contextWarnAtPercent": 70, "idleTimeoutSeconds": 0, "pausedTimeoutSeconds": 0,
        "contextPolicy": "handoff", "warnAtPercent": 80, "allowUnmetered": false, "skillIds": [],
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let path = "/api/agents/sessions";
    let (owner, key) = (on.owner(), [("idempotency-key", "once")]);
    let reply = on.send(&owner, Method::POST, path, &key, Some(body.clone())).await;
    let session = on.session_of(&reply.expect(201));
    session.until_said("Working.").await;
    on.get(&session.path("")).await.expect(200);
    on.send(&owner, Method::POST, path, &key, Some(body)).await.expect(201);
    let other = on.work(&short());
    on.send(&owner, Method::POST, path, &key, Some(other)).await.expect(409);
    let wrong = json!({ "objective": " ", "budgetCapUsd": "-1", "labels": { "": "" }, "colour": "red", "warnAtPercent": 0 });
    on.post(path, wrong).await.expect(422);
    let stale = [("if-match", "\"999\"")];
    on.send(&owner, Method::POST, &session.path("/pause"), &stale, Some(json!({}))).await.expect(412);
}

/// Pause, resume, interrupt, skills, reload, cancel.
async fn stopped(on: &mut Recorder) {
    let skill =
        on.post("/api/agents/skills", json!({ "name": "Formatting", "description": "How we format" })).await;
    let skill = skill.expect(201).body["id"].as_str().unwrap().to_owned();
    let session = on.started("stopped", &endless()).await;
    session.until_said("Working.").await;
    let enable = session.path(&format!("/skills/{skill}/enable"));
    on.post(&session.path("/pause"), json!({})).await.expect(202);
    session.until_status("Paused").await;
    on.post(&session.path("/pause"), json!({})).await.expect(409);
    on.post(&session.path("/resume"), json!({})).await.expect(202);
    session.until_status("Running").await;
    on.post(&session.path("/resume"), json!({})).await.expect(409);
    on.post(&enable, json!({})).await.expect(409);
    on.post(&session.path("/interrupt"), json!({ "clearQueue": true })).await.expect(202);
    session.until_status("Interrupted").await;
    on.post(&session.path("/interrupt"), json!({})).await.expect(409);
    on.post(&enable, json!({})).await.expect(200);
    on.post(&session.path("/reload"), json!({})).await.expect(202);
    reloaded(&session, 1).await;
    on.post(&session.path("/reload"), json!({})).await;
    reloaded(&session, 2).await;
    on.delete(&session.path(&format!("/skills/{skill}"))).await.expect(200);
    on.delete(&session.path(&format!("/skills/{skill}"))).await.expect(404);
    on.patch(
        &session.path("/budget"),
        json!({ "capUsd": "9.50", "warnAtPercent": 50, "allowUnmetered": true }),
    )
    .await
    .expect(200);
    acknowledged(&session, "adjust_ack").await;
    on.patch(&session.path("/budget"), json!({ "capUsd": null, "warnAtPercent": null })).await;
    on.patch(&session.path("/budget"), json!({})).await;
    on.post(&session.path("/close"), json!({})).await;
    on.post(&session.path("/cancel"), json!({ "force": false })).await;
    session.until_status("Cancelled").await;
    session.until("the end of its run", |view| view["currentRun"].is_null()).await;
    on.get(&session.path("")).await.expect(200);
    on.post(&session.path("/cancel"), json!({})).await;
    on.post(&session.path("/pause"), json!({})).await.expect(409);
}

/// Waits until the sidecar has acknowledged a command with `received` and `done`. A change of the cap is sent as a command.
async fn acknowledged(session: &Session, event: &str) {
    let look = async || {
        let events: Vec<Value> = session.api.all(&session.path("/events")).await;
        (events.iter().filter(|one| one["eventType"] == event).count() == 2).then_some(())
    };
    session.until_within(PATIENCE, event, look).await;
}

/// Waits for the notice that the agent emits after it has acknowledged a reload.
async fn reloaded(session: &Session, times: usize) {
    let is_notice = |line: &&Value| line["summary"] == "now with the model default";
    session.until_activity("the reload", |lines| lines.iter().filter(is_notice).count() == times).await;
}

/// Changes of the model and the thinking level, compaction, forks, and other conversations.
async fn adjusted(on: &mut Recorder) {
    let mut plays = script(&[turn(&[say("Working."), json!({ "waitForMessage": {} }), say("Done.")])]);
    plays["models"] = json!(["small", "medium", "large"]);
    let mut body = on.work(&plays);
    body["modelId"] = json!("small");
    let session = on.started_with("adjusted", body).await;
    session.until_said("Working.").await;
    let settled = |view: &Value| view["adjustments"].as_array().is_none_or(Vec::is_empty);
    on.patch(&session.path(""), json!({ "modelId": "medium", "thinkingLevel": "low" })).await.expect(202);
    session.until("the adjustment", settled).await;
    on.patch(&session.path(""), json!({ "cycleModel": "forward" })).await.expect(202);
    session.until("the adjustment", settled).await;
    on.patch(&session.path(""), json!({})).await.expect(422);
    on.post(&session.path("/compact"), json!({ "instructions": "Keep the plan." })).await.expect(202);
    session.until("the adjustment", settled).await;
    let turn_id = session.view().await["currentTurn"]["id"].clone();
    on.post(&session.path("/fork"), json!({ "beforeTurnId": turn_id })).await.expect(409);
    session.say("Finish.", "Immediate").await;
    session.until_status("Idle").await;
    on.post(&session.path("/fork"), json!({ "beforeTurnId": turn_id })).await.expect(202);
    session.until("the adjustment", settled).await;
    on.post(&session.path("/new-conversation"), json!({})).await.expect(202);
    session.until("the adjustment", settled).await;
    on.post(&session.path("/switch-conversation"), json!({ "turnId": turn_id })).await.expect(202);
    session.until("the adjustment", settled).await;
    on.post(&session.path("/label"), json!({ "label": "A good start" })).await.expect(202);
    session.until("the adjustment", settled).await;
    on.get(&session.path("/conversations")).await.expect(200);
    on.post(&session.path("/switch-conversation"), json!({})).await.expect(422);
    on.get(&session.path("")).await.expect(200);
    on.post(&session.path("/close"), json!({})).await.expect(200);
    session.until("the end of its run", |view| view["currentRun"].is_null()).await;
    on.post(&session.path("/close"), json!({})).await;
}

async fn reviewed(on: &mut Recorder) {
    for (name, decision) in [("approved", "/approve"), ("rejected", "/reject")] {
        let session = on.started(name, &with_output()).await;
        let view = session.until("output", |view| view["hasPendingReview"] == true).await;
        let output = view["output"]["outputId"].as_str().unwrap().to_owned();
        on.post(&session.path(decision), json!({ "outputId": "01900000-0000-7000-8000-00000000ffff" }))
            .await
            .expect(409);
        let mut body = json!({ "outputId": output });
        if decision == "/reject" {
            body["reason"] = json!("The tests are missing.");
        }
        on.post(&session.path(decision), body).await.expect(200);
        session.until("the end of its run", |view| view["currentRun"].is_null()).await;
        on.get(&session.path("")).await.expect(200);
    }
}

async fn retried(on: &mut Recorder) {
    let fails =
        turn(&[say("One."), json!({ "end": { "error": true, "reason": "crashed", "message": "No luck." } })]);
    let session = on.started("retried", &script(&[fails, turn(&[say("Two.")])])).await;
    session.until_status("Failed").await;
    session.until("the end of its run", |view| view["currentRun"].is_null()).await;
    on.get(&session.path("")).await.expect(200);
    on.post(&session.path("/retry"), json!({ "additionalInstruction": "Again", "fresh": false }))
        .await
        .expect(202);
    session.until_said("Two.").await;
    session.until_status("Idle").await;
    on.get(&session.path("")).await.expect(200);
    on.post(&session.path("/retry"), json!({})).await.expect(409);
}

async fn listed(on: &mut Recorder) {
    let page = on.get("/api/agents/sessions?limit=2").await.expect(200).body;
    let cursor = page["nextCursor"].as_str().unwrap();
    on.get(&format!("/api/agents/sessions?limit=2&cursor={cursor}")).await.expect(200);
    on.get("/api/agents/sessions?status=Cancelled").await.expect(200);
    on.get("/api/agents/sessions?status=Asleep&limit=0&cursor=none").await.expect(422);
    let page = on.get("/api/agents/sessions/history?limit=1").await.expect(200).body;
    let cursor = page["nextCursor"].as_str().unwrap();
    on.get(&format!("/api/agents/sessions/history?limit=9&cursor={cursor}")).await.expect(200);
    let range = "dateFrom=2001-01-01T00:00:00Z&dateTo=2002-01-01T00:00:00Z";
    on.get(&format!("/api/agents/sessions/history?{range}")).await.expect(200);
    on.get("/api/agents/sessions/history?dateFrom=yesterday").await.expect(422);
}
