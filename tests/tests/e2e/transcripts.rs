//! Recorded runs of Claude Code through the whole system, read over the API.

use std::path::PathBuf;

use pilothouse_tests::{PATIENCE, Session};
use serde_json::{Value, json};

use crate::server::{Server, work};

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/transcripts").join(name)
}

fn lines(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(fixture(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Whether a subagent sent the block, and the block.
fn blocks<'a>(lines: &'a [Value], kind: &'a str) -> impl Iterator<Item = (bool, &'a Value)> {
    lines.iter().filter(move |line| line["type"] == kind).flat_map(|line| {
        let main = line["parent_tool_use_id"].is_null();
        line["message"]["content"].as_array().into_iter().flatten().map(move |block| (main, block))
    })
}

async fn play(server: &Server, recording: &str, segment: Option<&str>) -> Session {
    let mut body = work(server, &Value::Null);
    body["adapterOptions"] = json!({ "recording": fixture(recording), "speed": 0 });
    if let Some(segment) = segment {
        body["adapterOptions"]["segment"] = json!(segment);
    }
    Session::start(&server.api(), body).await
}

fn decimal(value: &Value) -> f64 {
    value.as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn recorded_tour_matches_the_api() {
    let server = Server::start(1).await;
    let recorded = lines("claude-sdk-full-tour.jsonl");
    let session = play(&server, "claude-sdk-full-tour.jsonl", None).await;

    let view = session.until_status("WaitingForInput").await;
    let request = &view["pendingRequests"][0];
    let question = &request["questions"][0];
    assert_eq!((&question["question"], &question["header"]), (&json!("Which colour?"), &json!("Colour")));
    assert_eq!(
        question["options"],
        json!([{ "label": "Red", "description": "r" }, { "label": "Blue", "description": "b" }])
    );
    let answers =
        json!({ "requestId": request["id"], "answers": [{ "question": "Which colour?", "answer": "Blue" }] });
    session.post("/answer", answers).await.expect(200);

    let view = session.until_status("WaitingForApproval").await;
    assert_eq!(view["sessionPlan"]["content"], "1. write c.txt\n2. done");
    session.post("/plan/approve", json!({ "requestId": view["pendingRequests"][0]["id"] })).await.expect(200);
    // The recorded user sent a message while the agent slept, so the playback waits for a message there.
    let sleeps = |calls: &[Value]| {
        let asleep = |c: &Value| {
            c["status"] == "Pending" && c["input"]["command"].as_str().is_some_and(|c| c.starts_with("sleep"))
        };
        calls.iter().any(asleep)
    };
    session
        .until_within(PATIENCE, "the long call", async || sleeps(&session.tool_calls().await).then_some(()))
        .await;
    let calls = session.tool_calls().await;
    let is_open = |call: &Value| call["result"].is_null() && call["completedAt"].is_null();
    for call in calls {
        assert_eq!(call["status"] == "Pending", is_open(&call), "{call}");
    }
    session.say("When you are done, say so.", "Immediate").await;
    let view = session.until_status("Idle").await;
    assert_eq!(view["metrics"]["turnCount"], 1);
    assert_eq!(view["sessionPlan"]["status"], "Approved");

    messages_are_the_recorded_ones(&session, &recorded).await;
    tool_calls_are_the_recorded_ones(&session, &recorded).await;
    subagent_is_the_recorded_one(&session).await;
    let tasks = session.get("/task-list").await.expect(200).body;
    let listed: Vec<_> = tasks["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| (t["subject"].as_str().unwrap(), t["status"].as_str().unwrap()))
        .collect();
    assert_eq!(listed, [("First task", "InProgress"), ("Second task", "Pending")]);
    money_is_the_recorded_one(&session, &recorded).await;
}

async fn messages_are_the_recorded_ones(session: &Session, recorded: &[Value]) {
    let expected: Vec<_> = blocks(recorded, "assistant")
        .filter(|(main, _)| *main)
        .filter_map(|(_, block)| match block["type"].as_str().unwrap() {
            "text" => Some((false, block["text"].clone())),
            "thinking" => Some((true, block["thinking"].clone())),
            _ => None,
        })
        .filter(|(_, text)| text != "")
        .collect();
    let messages = session.messages().await;
    let reported: Vec<_> = messages
        .iter()
        .filter(|m| m["source"] == "Agent")
        .map(|m| (m["thinking"] == true, m["content"].clone()))
        .collect();
    assert_eq!(reported, expected);
    assert_eq!(messages.iter().filter(|m| m["source"] == "User").count(), 1, "the message of the owner");
}

async fn tool_calls_are_the_recorded_ones(session: &Session, recorded: &[Value]) {
    let result_of = |id: &Value| {
        let (_, block) = blocks(recorded, "user")
            .find(|(_, b)| b["type"] == "tool_result" && b["tool_use_id"] == *id)
            .unwrap();
        let text = match &block["content"] {
            Value::String(text) => text.clone(),
            list => list[0]["text"].as_str().unwrap().to_owned(),
        };
        (text, block["is_error"] == true)
    };
    let expected: Vec<_> = blocks(recorded, "assistant")
        .filter(|(main, b)| *main && b["type"] == "tool_use")
        .map(|(_, b)| {
            let (text, is_error) = result_of(&b["id"]);
            let status = if is_error { "Error" } else { "Success" };
            (b["id"].clone(), b["name"].clone(), b["input"].clone(), json!(text), json!(status))
        })
        .collect();
    assert_eq!(expected.len(), 15);
    let reported: Vec<_> = session
        .tool_calls()
        .await
        .into_iter()
        .map(|c| {
            (
                c["id"].clone(),
                c["toolName"].clone(),
                c["input"].clone(),
                c["result"]["content"].clone(),
                c["status"].clone(),
            )
        })
        .collect();
    assert_eq!(reported, expected);
}

async fn subagent_is_the_recorded_one(session: &Session) {
    let id = "a6bc2af423256973e";
    let said = session.api.all(&session.path(&format!("/messages?subAgentId={id}"))).await;
    let said: Vec<_> = said.iter().map(|m| m["content"].as_str().unwrap()).collect();
    assert_eq!(said, ["sub reading", "Subagent finished: a.txt says hello."]);
    let calls = session.api.all(&session.path(&format!("/tool-calls?subAgentId={id}"))).await;
    assert_eq!(calls.len(), 1);
    assert_eq!((&calls[0]["toolName"], &calls[0]["status"]), (&json!("Read"), &json!("Success")));
    assert_eq!(calls[0]["result"]["content"], "1\thello world\n2\t");
    let metrics = session.get("/metrics").await.expect(200).body;
    let subagents = metrics["subAgentMetrics"].as_array().unwrap();
    assert_eq!(subagents.len(), 1);
    assert_eq!((&subagents[0]["id"], &subagents[0]["status"]), (&json!(id), &json!("Completed")));
    let starting =
        session.tool_calls().await.into_iter().find(|call| call["id"] == subagents[0]["toolCallId"]);
    let starting = starting.expect("the call that started the subagent");
    assert_eq!(starting["input"]["subagent_type"], "general-purpose", "{starting}");
    let lines = session.api.all(&session.path(&format!("/activity?subAgentId={id}"))).await;
    assert!(!lines.is_empty() && lines.iter().all(|l| l["subAgentId"] == id));
}

async fn money_is_the_recorded_one(session: &Session, recorded: &[Value]) {
    let result = recorded.iter().rfind(|line| line["type"] == "result").unwrap();
    let totals = &result["modelUsage"]["claude-sonnet-4-5"];
    let metrics = session.get("/metrics").await.expect(200).body;
    assert_eq!(metrics["totalCostUsd"], "0.084861");
    assert!((decimal(&metrics["totalCostUsd"]) - result["total_cost_usd"].as_f64().unwrap()).abs() < 1e-12);
    let used = &metrics["tokenUsageByModel"]["claude-sonnet-4-5"];
    assert_eq!(
        [&used["inputTokens"], &used["outputTokens"], &used["cacheReadTokens"], &used["cacheWriteTokens"]],
        [
            &totals["inputTokens"],
            &totals["outputTokens"],
            &totals["cacheReadInputTokens"],
            &totals["cacheCreationInputTokens"]
        ]
    );
    assert_eq!(metrics["contextWindow"]["totalTokens"], 5000 + 300 + 3000 + 200);
    let budget = session.view().await["budget"].clone();
    assert_eq!(
        (&budget["estimatedCostUsd"], &budget["tokensUsed"]),
        (&json!("0.084861"), &json!(24_697 + 608 + 3000 + 200))
    );
}

/// Recorded failures: recovered ones end in Idle, an outage pauses, and others are an error of the agent, with their spend.
#[tokio::test]
async fn recorded_failures_end_as_decided() {
    let server = Server::start(1).await;
    let mut sessions = Vec::new();
    for (segment, status, spent, reason) in [
        ("429x2 retry-after 1", "Idle", "0.004773", ""),
        ("streamError mid", "Idle", "0.004773", ""),
        ("refusal stop", "Idle", "0.009573", ""),
        ("unknown model price", "Idle", "0.06", ""),
        ("500 forever maxretries 2", "Paused", "0", "model-unavailable"),
        ("400 forever", "Failed", "0", "prompt_too_long"),
        ("401", "Failed", "0", "stream_ended"),
        ("maxTurns 2", "Idle", "0.009609", ""),
        ("maxBudgetUsd 0.05", "Idle", "0.09", ""),
        ("resume missing", "Failed", "0", "error_during_execution"),
    ] {
        let session = play(&server, "claude-sdk-errors.jsonl", Some(segment)).await;
        sessions.push((segment, status, spent, reason, session));
    }
    for (segment, status, spent, reason, session) in sessions {
        let view = session.until_status(status).await;
        assert_eq!(view["budget"]["estimatedCostUsd"], spent, "{segment}");
        match status {
            "Failed" => {
                assert_eq!(view["failureReason"]["reason"], "AgentError", "{segment}");
                let message = view["failureReason"].to_string();
                assert!(message.contains(reason), "{segment}: {message} does not contain {reason}");
            }
            "Paused" => assert_eq!(view["pausedReason"], reason, "{segment}"),
            _ => assert_eq!(view["metrics"]["turnCount"], 1, "{segment}"),
        }
    }
}

/// A recorded interrupt without a follow-up ends its turn, and the session accepts messages afterwards.
#[tokio::test]
async fn recording_that_ends_with_an_interrupt_leaves_session_idle() {
    let server = Server::start(1).await;
    let lines = [
        json!({ "type": "system", "subtype": "init", "model": "m", "session_id": "s" }),
        json!({ "type": "assistant", "session_id": "s", "message": { "id": "1", "model": "m", "content": [
            { "type": "tool_use", "id": "t", "name": "Bash", "input": { "command": "sleep 600" } }] } }),
        json!({ "type": "result", "subtype": "error_during_execution", "is_error": true, "session_id": "s",
            "terminal_reason": "aborted_tools" }),
    ];
    let recording = server.work_folder().join("interrupted.jsonl");
    std::fs::write(&recording, lines.map(|line| line.to_string()).join("\n")).unwrap();
    let mut body = work(&server, &Value::Null);
    body["adapterOptions"] = json!({ "recording": recording, "speed": 0 });
    let session = Session::start(&server.api(), body).await;
    let view = session.until_status("Idle").await;
    assert_eq!(view["metrics"]["turnCount"], 1);
    session.say("what happened?", "Queued").await;
    session.until("an answer", |view| view["metrics"]["turnCount"] == 2 && view["status"] == "Idle").await;
}

#[tokio::test]
async fn a_recording_of_another_agent_is_refused_in_a_sentence() {
    let server = Server::start(1).await;
    let session = play(&server, "acp-claude.jsonl", None).await;
    let view = session.until_status("Failed").await;
    let message = view["failureReason"].to_string();
    assert!(message.contains("only recordings of Claude Code can be played"), "{message}");
}
