//! Subagents of a session: separate entities with their own messages and context windows (S0 8.4).

use pilothouse_tests::Session;
use serde_json::{Value, json};

use crate::scripts::{say, script, short, turn};
use crate::server::{Server, started};

fn subagent(id: &str, line: &str, failure: Option<&str>) -> Value {
    let used = json!({ "usage": {
        "costUsd": "0.10", "tokens": { "inputTokens": 10 }, "meter": format!("meter-{id}"),
        "context": { "tokens": 50, "limit": 200 },
    } });
    let tool = json!({ "tool": { "id": format!("call-of-{id}"), "name": "Read", "result": "A" } });
    json!({ "subagent": {
        "id": id, "objective": format!("Do {id}"), "model": "small",
        "steps": [say(line), tool, used], "failure": failure,
    } })
}

async fn with_two(server: &Server) -> Session {
    let own = json!({ "usage": { "costUsd": "1", "context": { "tokens": 10, "limit": 1000 } } });
    let first = subagent("s1", "From the first", None);
    let second = subagent("s2", "From the second", Some("it broke"));
    let session = started(server, &script(&[turn(&[say("Mine"), first, second, own])])).await;
    session.until_status("Idle").await;
    session
}

#[tokio::test]
async fn subagents_are_listed_with_their_data_and_usage() {
    let server = Server::start(1).await;
    let session = with_two(&server).await;
    let all = server.api().all(&session.path("/sub-agents")).await;
    assert_eq!(all.len(), 2, "{all:#?}");
    for (listed, id, status) in [(&all[0], "s1", "Completed"), (&all[1], "s2", "Failed")] {
        assert_eq!((&listed["id"], &listed["status"]), (&json!(id), &json!(status)));
        assert_eq!((&listed["objective"], &listed["modelId"]), (&json!(format!("Do {id}")), &json!("small")));
        assert!(listed["startedAt"].is_string() && listed["completedAt"].is_string());
        assert_eq!(listed["totalCostUsd"], "0.1");
        assert_eq!(listed["contextWindow"]["totalTokens"], 50);
    }
    assert_eq!(session.get("/metrics").await.expect(200).body["subAgentMetrics"], json!(all));
    let view = session.view().await;
    assert_eq!(view["metrics"]["totalCostUsd"], "1.2", "their spend is part of the session's");
    assert_eq!(view["metrics"]["contextWindow"]["totalTokens"], 10, "their context windows are separate");

    // Pages use a cursor that is valid only for this list.
    let first = session.get("/sub-agents?limit=1").await.expect(200).body;
    assert_eq!(first["items"][0]["id"], "s1");
    let cursor = first["nextCursor"].as_str().unwrap();
    let second = session.get(&format!("/sub-agents?limit=1&cursor={cursor}")).await.expect(200).body;
    assert_eq!(second["items"][0]["id"], "s2");
    session.get(&format!("/messages?cursor={cursor}")).await.refused(422, "validation-failed");
    server.api_of("somebody-else").get(&session.path("/sub-agents")).await.refused(404, "not-found");

    // They stay with the session that started them.
    let other = started(&server, &short()).await;
    other.until_status("Idle").await;
    session.say("More.", "Queued").await;
    session.until("a turn", |view| view["status"] == "Idle" && view["metrics"]["turnCount"] == 2).await;
    assert_eq!(server.api().all(&session.path("/sub-agents")).await, all);
    assert_eq!(server.api().all(&other.path("/sub-agents")).await, [] as [Value; 0]);
}

/// The messages and calls of a subagent never appear in the lists of the parent.
#[tokio::test]
async fn subagent_messages_and_calls_are_separate() {
    let server = Server::start(1).await;
    let session = with_two(&server).await;
    let own = session.messages().await;
    assert!(own.iter().all(|m| m["source"] != "SubAgent" && m["subAgentId"].is_null()), "{own:#?}");
    assert_eq!(session.said().await, ["Mine"]);
    let of_first = server.api().all(&session.path("/messages?subAgentId=s1")).await;
    assert_eq!(of_first.len(), 1);
    assert_eq!(
        (&of_first[0]["source"], &of_first[0]["content"]),
        (&json!("SubAgent"), &json!("From the first"))
    );
    let calls = session.tool_calls().await;
    assert!(calls.iter().all(|c| c["id"] != "call-of-s1"), "{calls:#?}");
    let theirs = server.api().all(&session.path("/tool-calls?subAgentId=s2")).await;
    assert_eq!(theirs.len(), 1);
    assert_eq!((&theirs[0]["id"], &theirs[0]["subAgentId"]), (&json!("call-of-s2"), &json!("s2")));
}
