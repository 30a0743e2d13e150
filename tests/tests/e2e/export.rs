//! Export of a session as one document.

use pilothouse_wire::keys::sha256_hex;
use serde_json::{Value, json};

use crate::scripts::{say, script, turn};
use crate::server::{Server, started};

/// The export contains everything that the lists show, and is reproducible.
#[tokio::test]
async fn export_contains_the_whole_session() {
    let server = Server::start(1).await;
    let steps = [
        json!({ "think": "Where to begin?" }),
        json!({ "tool": { "name": "Bash", "input": { "command": "ls" }, "result": "src" } }),
        json!({ "usage": { "costUsd": "0.02", "tokens": { "inputTokens": 900, "outputTokens": 80 } } }),
        json!({ "subagent": { "objective": "Look", "id": "s1", "steps": [{ "say": "I look." }] } }),
        json!({ "tasks": [{ "id": "1", "subject": "Tests", "status": "Completed" }] }),
        json!({ "log": { "text": "a line", "stream": "agent" } }),
        json!({ "waitForMessage": {} }),
        say("Done."),
    ];
    let session = started(&server, &script(&[turn(&steps)])).await;
    session.until_activity("the log", |lines| lines.len() > 5).await;
    let agent = server.api_with(Some(session.api_key().to_owned()));
    session
        .until_within(pilothouse_tests::PATIENCE, "a live run", async || {
            let reply = agent.post("/api/agent/tasks", json!({ "title": "More", "priority": "Low" })).await;
            (reply.status == 201).then_some(())
        })
        .await;
    session.say("go", "Immediate").await;
    session.until_status("Idle").await;
    session.say("Wait with this.", "Queued").await;
    session.until("the second turn", |v| v["status"] == "Idle" && v["metrics"]["turnCount"] == 2).await;

    let reply = session.get("/export").await.expect(200);
    let export = &reply.body;
    assert_eq!(export["schemaVersion"], 1);
    assert_eq!(export["session"], session.view().await);
    assert_eq!(export["queue"], session.queue().await);
    assert_eq!(export["activity"], json!(session.activity().await));
    assert_eq!(export["metrics"], session.get("/metrics").await.expect(200).body);
    assert_eq!(export["taskList"], session.get("/task-list").await.expect(200).body);
    assert_eq!(export["tasks"], json!(session.api.all(&session.path("/tasks")).await));
    assert_eq!(export["logs"], json!(session.api.all(&session.path("/logs")).await));
    assert_eq!(export["rawEvents"], json!(session.api.all(&session.path("/events")).await));
    let of_parent = |list: &Value| -> Vec<Value> {
        list.as_array().unwrap().iter().filter(|one| one.get("subAgentId").is_none()).cloned().collect()
    };
    assert_eq!(of_parent(&export["messages"]), session.messages().await);
    assert_eq!(of_parent(&export["toolCalls"]), session.tool_calls().await);
    let theirs = session.api.all(&session.path("/messages?subAgentId=s1")).await;
    assert!(!theirs.is_empty());
    for message in theirs {
        assert!(export["messages"].as_array().unwrap().contains(&message), "{message}");
    }
    assert_eq!(export["runs"][0]["id"], session.view().await["currentRun"]["id"]);
    assert_eq!(export.get("rest"), None);
    assert_eq!(
        session.get("/export").await.expect(200).text,
        reply.text,
        "the same state gives the same bytes"
    );
}

/// A session that is too large for a response is exported to the blob store, and the response redirects there.
#[tokio::test]
async fn a_large_session_is_exported_by_reference() {
    let server = Server::start(1).await;
    let text = "All work and no play. ".repeat(1200);
    let talk = json!({ "repeat": { "times": 80, "steps": [say(&text)] } });
    let session = started(&server, &script(&[turn(&[talk])])).await;
    session.until_status("Idle").await;
    // The HTTP client follows the redirect.
    let reply = session.get("/export").await.expect(200);
    assert!(reply.text.len() > 3_000_000, "{}", reply.text.len());
    assert_eq!(reply.body["messages"].as_array().unwrap().len(), 80);
    assert_eq!(reply.body["rawEvents"], json!(session.api.all(&session.path("/events")).await));
    let stored = session.get(&format!("/blobs/{}", sha256_hex(reply.text.as_bytes()))).await.expect(200);
    assert_eq!(stored.text, reply.text);
    server.api_of("someone-else").get(&session.path("/export")).await.refused(404, "not-found");
}
