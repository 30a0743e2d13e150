//! Approvals that come when the call no longer waits (decision 77).

use pilothouse_tests::PATIENCE;
use pilothouse_tests::Session;
use serde_json::{Value, json};

use crate::projects::project;
use crate::scripts::{say, script, turn};
use crate::server::Server;

fn removal(id: &str) -> Value {
    json!({ "tool": { "id": id, "name": "Bash", "input": { "command": "rm -rf build" }, "result": "removed" } })
}

/// An agent of the project whose session hibernates after a second.
async fn sleepy(server: &Server, shop: &Value, plays: &Value) -> Session {
    let api = server.api();
    let template = json!({
        "name": "Sleepy", "modelId": "small", "defaultBudgetCapUsd": "5", "adapter": "script",
        "idleTimeoutSeconds": 1, "allowedTools": ["Bash"],
    });
    let template = api.post("/api/agents/templates", template).await.expect(201).body;
    let body = json!({
        "projectId": shop["id"], "templateId": template["id"],
        "brief": {
            "role": "Builder", "workstream": "api", "adapter": "script", "providerConfig": { "script": plays },
        },
        "objective": "Build it", "workingDirectory": server.work_folder(), "budgetCapUsd": "5",
    });
    Session::spawn(&api, body).await
}

async fn asked_about(session: &Session, call: &str) -> Value {
    let look = async || {
        let found = session.api.all(&format!("/api/decisions?session={}", session.id)).await;
        found.into_iter().find(|decision| decision["requestId"] == call)
    };
    session.until_within(PATIENCE, call, look).await
}

/// The person approves while the agent sleeps. It wakes, repeats the call, and is not asked; the next identical call asks again.
#[tokio::test]
async fn approval_of_a_sleeping_agent_allows_exactly_one_repetition() {
    let server = Server::start(1).await;
    let shop = project(&server.api(), "Shop").await;
    let plays = script(&[turn(&[removal("first"), removal("third"), say("Done.")])]);
    let session = sleepy(&server, &shop, &plays).await;
    let first = asked_about(&session, "first").await;
    session.until("hibernation", |view| view["hibernated"] == true).await;
    let path = format!("/api/decisions/{}/resolve", first["id"].as_str().unwrap());
    let approved = session.api.post(&path, json!({ "resolutionType": "approve" })).await.expect(200).body;
    assert_eq!((&approved["state"], &approved["delivery"]), (&json!("resolved"), &json!("message")));

    let third = asked_about(&session, "third").await;
    let path = format!("/api/projects/{}/decision-log", shop["id"].as_str().unwrap());
    let log = session.api.all(&path).await;
    let verdicts: Vec<_> = log.iter().rev().filter(|entry| entry["type"] == "verdict").collect();
    let given: Vec<_> = verdicts.iter().map(|it| (&it["toolCallId"], &it["verdict"])).collect();
    assert_eq!(json!(given), json!([["first", "ask"], ["first", "allow"], ["third", "ask"]]));
    assert_eq!(verdicts[1]["rule"], json!({ "type": "grant", "decisionId": first["id"] }));
    let messages = session.api.get(&format!("/api/agents/sessions/{}/messages", session.id)).await;
    let text = serde_json::to_string(&messages.expect(200).body).unwrap();
    assert!(text.contains("Make the call again with exactly the same input"), "{text}");
    let path = format!("/api/decisions/{}/resolve", third["id"].as_str().unwrap());
    let rejected = session.api.post(&path, json!({ "resolutionType": "reject" })).await;
    assert!([200, 202].contains(&rejected.status), "{}", rejected.body);
}
