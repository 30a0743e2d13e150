//! Decisions of a project that are not made in time (S2, "Decision timeout policy"; decision 77).

use pilothouse_tests::{Api, PATIENCE, Session};
use serde_json::{Value, json};

use crate::scripts::{say, script, turn};
use crate::server::Server;

async fn project(api: &Api, more: &Value) -> Value {
    let mut body = json!({ "name": "Shop", "workstreams": [{ "id": "api", "name": "The HTTP API" }] });
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    api.post("/api/projects", body).await.expect(201).body
}

/// An agent of the only project. `brief` has more fields of its brief.
async fn spawn(server: &Server, plays: &Value, brief: &Value) -> Session {
    let mut body = json!({
        "brief": {
            "role": "Builder", "workstream": "api", "adapter": "script", "providerConfig": { "script": plays },
        },
        "objective": "Build it",
        "workingDirectory": server.work_folder(),
        "budgetCapUsd": "5",
    });
    for (name, value) in brief.as_object().unwrap() {
        body["brief"][name] = value.clone();
    }
    Session::spawn(&server.api(), body).await
}

fn call(id: &str, tool: &str, input: &Value) -> Value {
    json!({ "tool": { "id": id, "name": tool, "input": input, "result": "done" } })
}

/// The decision about a request of the session, once it is in this state and has `expected` as the value of `field`.
async fn until(session: &Session, request: &str, state: &str, field: &str, expected: &Value) -> Value {
    let look = async || {
        let path = format!("/api/decisions?state={state}&session={}", session.id);
        let found = session.api.all(&path).await;
        found.into_iter().find(|it| it["requestId"] == request && it[field] == *expected)
    };
    session.until_within(PATIENCE, &format!("{request} is {state}"), look).await
}

async fn advance(api: &Api, ticks: u64) {
    api.post("/api/tick/advance", json!({ "ticks": ticks })).await.expect(200);
}

#[tokio::test]
async fn timeouts_approve_harmless_calls_and_escalate_the_others() {
    let server = Server::start(1).await;
    let api = server.api();
    let settings = json!({
        "tickConfig": { "mode": "manual" },
        "escalation": { "adaptive": { "alwaysEscalate": ["update", "create", "delete"] } },
        "decisionTimeout": { "adaptive": { "timeoutTicks": 5, "onTimeout": "auto_recommend" } },
    });
    let shop = project(&api, &settings).await;
    let plays = script(&[turn(&[
        call("write", "Write", &json!({ "file_path": "notes.md", "content": "x" })),
        call("remove", "Bash", &json!({ "command": "rm -rf build" })),
        say("Done."),
    ])]);
    let session = spawn(&server, &plays, &json!({})).await;
    let write = until(&session, "write", "pending", "dueTick", &json!(5)).await;
    assert_eq!((&write["onTimeout"], &write["extensions"]), (&json!("auto_recommend"), &json!(0)));
    assert_eq!((write.get("dueAt"), write.get("expiresAt")), (None, None), "a person advances the ticks");
    advance(&api, 5).await;
    let rule = json!({ "type": "timeout", "rule": { "type": "project", "mode": "adaptive" } });
    until(&session, "write", "auto_resolved", "resolvedBy", &rule).await;

    until(&session, "remove", "pending", "dueTick", &json!(10)).await;
    advance(&api, 5).await;
    let first = until(&session, "remove", "pending", "dueTick", &json!(15)).await;
    assert_eq!((&first["badges"], &first["severity"]), (&json!(["timedOut"]), &json!("high")));
    advance(&api, 5).await;
    until(&session, "remove", "pending", "severity", &json!("critical")).await;
    advance(&api, 5).await;
    session.until_said("Done.").await;
    let calls = session.tool_calls().await;
    let result = |id: &str| calls.iter().find(|it| it["id"] == id).unwrap()["result"]["content"].to_string();
    assert_eq!(result("write"), "\"done\"");
    assert!(result("remove").contains("the time to decide is over"), "{}", result("remove"));
    let path = format!("/api/decisions?state=expired&session={}", session.id);
    assert_eq!(api.all(&path).await.len(), 1);

    let path = format!("/api/projects/{}/decision-log", shop["id"].as_str().unwrap());
    let look = async || {
        let log = api.all(&path).await;
        let timeouts = log.iter().rev().filter(|entry| entry["timeout"].is_object());
        let effects: Vec<_> = timeouts.map(|entry| entry["timeout"]["effect"].clone()).collect();
        (effects == ["auto_resolved", "escalated", "escalated", "cancelled"]).then_some(())
    };
    session.until_within(PATIENCE, "the timeouts in the log", look).await;
}

#[tokio::test]
async fn a_brief_replaces_the_timeout_and_a_faster_clock_moves_it() {
    let server = Server::start(1).await;
    let api = server.api();
    let shop = project(&api, &json!({ "tickConfig": { "intervalMs": 60_000 } })).await;
    let ask = json!({ "question": { "id": "q1", "questions": [{ "question": "Which?" }] } });
    let brief = json!({ "decisionTimeout": { "timeoutTicks": 30, "onTimeout": "cancel" } });
    let session = spawn(&server, &script(&[turn(&[ask, say("Going on.")])]), &brief).await;
    let asked = until(&session, "q1", "pending", "onTimeout", &json!("cancel")).await;
    assert!(asked["dueAt"].is_string(), "{asked}");
    let path = format!("/api/projects/{}", shop["id"].as_str().unwrap());
    api.patch(&path, json!({ "tickConfig": { "intervalMs": 10 } })).await.expect(200);
    session.until_said("Going on.").await;
    assert_eq!(session.view().await["failureReason"], Value::Null);
}

#[tokio::test]
async fn wrong_timeouts_name_every_violation() {
    let server = Server::start(1).await;
    let api = server.api();
    let wrong = json!({ "timeoutTicks": 0, "onTimeout": "cancel", "maxExtensions": 101 });
    let body = json!({
        "name": "Shop", "workstreams": [{ "id": "api", "name": "API" }],
        "decisionTimeout": { "adaptive": wrong, "ecosystem": { "onTimeout": "never" } },
    });
    let violated = api.post("/api/projects", body).await.expect(422).violated();
    let expected = [
        "decisionTimeout.adaptive.maxExtensions",
        "decisionTimeout.adaptive.timeoutTicks",
        "decisionTimeout.ecosystem.onTimeout",
    ];
    assert_eq!(violated, expected);
    let shop = project(&api, &json!({ "decisionTimeout": { "ecosystem": { "onTimeout": "extend" } } })).await;
    let stored = json!({ "ecosystem": { "timeoutTicks": null, "onTimeout": "extend", "maxExtensions": 2 } });
    assert_eq!(shop["decisionTimeout"], stored);
    let brief = json!({
        "role": "Builder", "workstream": "api", "adapter": "script", "decisionTimeout": wrong,
        "providerConfig": { "script": script(&[]) },
    });
    let body = json!({
        "brief": brief, "objective": "Build it", "workingDirectory": server.work_folder(), "budgetCapUsd": "5",
    });
    let violated = api.post("/api/agents/spawn", body).await.expect(422).violated();
    assert_eq!(violated, ["brief.decisionTimeout.maxExtensions", "brief.decisionTimeout.timeoutTicks"]);
}
