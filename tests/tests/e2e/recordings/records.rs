//! The records of a session: activity, messages, tool calls, logs, events and export.

use serde_json::{Value, json};

use super::recorder::Recorder;
use crate::scripts::{say, script, turn};

/// Every kind of event that needs no answer of the owner.
pub(super) fn everything() -> Value {
    script(&[turn(&[
        json!({ "think": "Where to begin?" }),
        json!({ "tool": { "id": "ls", "name": "Bash", "input": { "command": "ls" }, "result": "src\ntests" } }),
        json!({ "tool": { "id": "rm", "name": "Bash", "input": { "command": "rm x" }, "result": "x: not found", "error": true } }),
        json!({ "usage": { "costUsd": "0.02", "tokens": { "inputTokens": 900, "outputTokens": 80, "cacheReadTokens": 7,
            "cacheWriteTokens": 3 }, "context": { "tokens": 900, "limit": 1000 } } }),
        json!({ "subagent": { "id": "s1", "objective": "Look around", "model": "small", "steps": [
            say("I look."),
            { "tool": { "id": "grep", "name": "Grep", "input": { "pattern": "x" }, "result": "none" } },
            { "usage": { "costUsd": "0.005", "tokens": { "inputTokens": 10 } } },
        ] } }),
        json!({ "subagent": { "id": "s2", "objective": "Fail", "steps": [], "failure": "no access" } }),
        json!({ "tasks": [
            { "id": "1", "subject": "Tests", "status": "Completed", "activeForm": "Testing" },
            { "id": "2", "subject": "Docs", "status": "InProgress" },
        ] }),
        json!({ "log": { "text": "a line\nanother", "stream": "agent" } }),
        json!({ "notice": { "name": "rate_limited", "summary": "The provider is slow", "detail": { "retries": 2 } } }),
        json!({ "raw": { "type": "deliverables", "deliverables": [
            { "id": "DL-001", "description": "Deliver", "acceptanceCriteria": ["It works"], "status": "passed" },
            { "id": "DL-002", "description": "Document", "acceptanceCriteria": [], "status": "blocked" },
        ] } }),
        json!({ "malformed": { "type": "nonsense", "why": 1 } }),
        say("Done: \"quotes\", ünïcode \u{1f980} and a tab\t."),
    ])])
}

#[tokio::test]
async fn records() {
    let mut on = Recorder::start("records").await;
    let session = on.started("session", &everything()).await;
    session.until_status("Idle").await;
    session.until("both subagents", |view| view["metrics"]["turnCount"] == 1).await;
    for list in ["activity", "messages", "tool-calls", "logs", "sub-agents", "events", "tasks"] {
        let path = session.path(&format!("/{list}"));
        on.get(&path).await.expect(200);
        let page = on.get(&format!("{path}?limit=1")).await.expect(200).body;
        if let Some(cursor) = page["nextCursor"].as_str() {
            on.get(&format!("{path}?limit=1&cursor={cursor}")).await.expect(200);
        }
        on.get(&format!("{path}?limit=x&cursor=none")).await.expect(422);
    }
    for of_subagent in ["activity", "messages", "tool-calls"] {
        on.get(&session.path(&format!("/{of_subagent}?subAgentId=s1"))).await.expect(200);
    }
    on.get(&session.path("/activity?since=2099-01-01T00:00:00Z")).await.expect(200);
    on.get(&session.path("/events?run=1&from=3&limit=1")).await.expect(200);
    on.get(&session.path("/events?run=x&from=y")).await.expect(422);
    on.get(&session.path("/search?query=quotes%20%C3%BC")).await.expect(200);
    let page = on.get(&session.path("/search?query=bash&limit=1")).await.expect(200).body;
    let cursor = page["nextCursor"].as_str().unwrap();
    on.get(&session.path(&format!("/search?query=bash&limit=1&cursor={cursor}"))).await.expect(200);
    on.get(&session.path("/search?query=&cursor=none")).await.expect(422);
    for view in ["metrics", "task-list", "deliverables", "export"] {
        on.get(&session.path(&format!("/{view}"))).await.expect(200);
    }
    on.get(&session.path("/plan")).await.expect(404);
    on.get(&session.path("")).await.expect(200);
    on.finish();
}

/// An export that exceeds the size limit of a response is stored as a blob, and the response redirects to it.
#[tokio::test]
async fn large_records() {
    let mut on = Recorder::start("large-records").await;
    let text = "All work and no play. ".repeat(1200);
    let talk = json!({ "repeat": { "times": 80, "steps": [say(&text)] } });
    let session = on.started("session", &script(&[turn(&[talk])])).await;
    session.until_status("Idle").await;
    let location =
        on.owner().api.get(&session.path("/export")).await.expect(303).header("location").to_owned();
    let hash = location.rsplit('/').next().unwrap().to_owned();
    assert!(hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{location}");
    on.replace(&hash, "<sha256>");
    on.get(&session.path("/export")).await.expect(303);
    let path = session.path(&format!("/blobs/{hash}"));
    let mut blob = on.owner().api.get(&path).await.expect(200);
    assert_eq!(pilothouse_wire::keys::sha256_hex(blob.text.as_bytes()), hash);
    blob.text = format!("<{} bytes or more>", 1 << 20);
    let owner = on.owner();
    on.record(&owner, &reqwest::Method::GET, &path, &[], None, &blob);
    on.finish();
}
