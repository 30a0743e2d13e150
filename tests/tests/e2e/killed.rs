//! Functions are killed repeatedly during their work while a session streams: no event is lost or counted twice. On the embedded server,
//! the server is killed.

use serde_json::{Value, json};

use crate::scripts::{say, script, turn};
use crate::server::{Server, started};

const LINES: usize = 150;
const KILLS: usize = 8;

/// The kills are spread evenly over the lines.
#[tokio::test]
async fn killed_functions_lose_nothing_and_count_nothing_twice() {
    let mut server = Server::start(1).await;
    let line = |n: usize| {
        [
            say(&format!("line {n}")),
            json!({ "usage": { "costUsd": "0.001", "tokens": { "inputTokens": 1 } } }),
            json!({ "tool": { "name": "Read", "input": { "path": n.to_string() }, "result": "A" } }),
            json!({ "wait": 20 }),
        ]
    };
    let steps: Vec<Value> = (0..LINES).flat_map(line).collect();
    let session = started(&server, &script(&[turn(&steps)])).await;
    for kill in 1..=KILLS {
        session.until_said(&format!("line {}", kill * LINES / (KILLS + 2))).await;
        server.restart().await;
    }
    session.until_status("Idle").await;
    let all: Vec<_> = (0..LINES).map(|n| format!("line {n}")).collect();
    assert_eq!(session.said().await, all);
    assert_eq!(session.tool_calls().await.len(), LINES);
    let view = session.view().await;
    assert_eq!(view["budget"]["estimatedCostUsd"], "0.15");
    assert_eq!((&view["metrics"]["turnCount"], &view["currentRun"]["ordinal"]), (&json!(1), &json!(1)));
    let lost = |line: &Value| line["summary"].as_str().is_some_and(|summary| summary.contains("lost"));
    assert!(!session.activity().await.iter().any(lost));
    // A later message reaches the same agent.
    session.say("Still there?", "Queued").await;
    session.until_said("You said: Still there?").await;
}
