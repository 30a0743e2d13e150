//! An agent that reports faster than its events can be sent (decision 96), through real processes.

use serde_json::{Value, json};

use crate::scripts::{say, script, turn};
use crate::server::{Server, started};

const BACKLOG: usize = 600;
const CHUNKS: usize = 300;

fn log(stream: &str) -> Value {
    json!({ "log": { "stream": stream, "text": format!("{stream};") } })
}

#[tokio::test]
async fn flood_of_output_is_merged_without_a_loss() {
    let server = Server::start(1).await;
    // Chunks of alternating streams do not belong together.
    let backlog = json!({ "repeat": { "times": BACKLOG / 2, "steps": [log("a"), log("b")] } });
    let flood = json!({ "repeat": { "times": CHUNKS, "steps": [log("c")] } });
    let call = json!({ "tool": { "name": "Read", "input": { "path": "a" }, "result": "A", "id": "after" } });
    let steps = [json!({ "silence": 10_000 }), backlog, flood, call, say("Done.")];
    let session = started(&server, &script(&[turn(&steps)])).await;
    let merged = |lines: &[Value]| {
        lines.iter().any(|line| line["summary"].as_str().is_some_and(|it| it.contains("were merged")))
    };
    session.until_activity("the notice", merged).await;
    session.until_status("Idle").await;
    let logs = session.api.all(&format!("/api/agents/sessions/{}/logs", session.id)).await;
    let text: String = logs.iter().filter_map(|chunk| chunk["content"].as_str()).collect();
    assert_eq!(text.replace("a;b;", "").matches("c;").count(), CHUNKS, "nothing is lost");
    assert_eq!(text, "a;b;".repeat(BACKLOG / 2) + &"c;".repeat(CHUNKS), "the order is kept");
    assert!(logs.len() < BACKLOG + CHUNKS / 2, "{} chunks", logs.len());
    let calls = session.tool_calls().await;
    assert_eq!((&calls[0]["id"], &calls[0]["result"]["content"]), (&json!("after"), &json!("A")));
    assert_eq!(session.said().await, ["Done."]);
}
