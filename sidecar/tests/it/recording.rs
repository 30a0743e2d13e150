//! Plays a recorded run of Claude Code, and waits for people where the recording did.

use pilothouse_domain::ToolCallId;
use pilothouse_domain::value::MessagePriority;
use pilothouse_wire::Command;
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::sidecar::{message, playing_options};

/// A recording of two turns in the format of the runtime.
fn recording() -> String {
    let assistant = |id: &str, text: &str| {
        json!({ "type": "assistant", "session_id": "s", "uuid": id, "parent_tool_use_id": null, "message": {
            "id": id, "type": "message", "role": "assistant", "model": "claude-x",
            "content": [{ "type": "text", "text": text }], "stop_reason": null,
            "usage": { "input_tokens": 1, "output_tokens": 1 } } })
    };
    let result = |cost: f64| {
        json!({ "type": "result", "subtype": "success", "is_error": false, "session_id": "s", "num_turns": 1,
            "result": "ok", "total_cost_usd": cost, "usage": { "input_tokens": 1, "output_tokens": 1 },
            "modelUsage": { "claude-x": { "inputTokens": 1, "outputTokens": 1, "costUSD": cost, "contextWindow": 200_000 } } })
    };
    let init = json!({ "type": "system", "subtype": "init", "session_id": "s", "model": "claude-x", "tools": [], "cwd": "/" });
    let lines: [Value; 6] =
        [init.clone(), assistant("a", "first"), result(0.01), init, assistant("b", "second"), result(0.02)];
    lines.map(|line| line.to_string()).join("\n")
}

#[tokio::test]
async fn recording_waits_for_a_message_between_its_turns() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.jsonl");
    std::fs::write(&path, recording()).unwrap();
    let (gateway, _folders, _sidecar) = playing_options(json!({ "recording": path, "speed": 0 })).await;
    gateway.sees("turn_completed").await;
    let pause = gateway.send(Command::Pause {});
    gateway.acknowledged(pause, "done").await;
    assert!(!gateway.story().iter().any(|s| s.contains("second")), "{:#?}", gateway.story());
    gateway.send(Command::Resume {});
    let id = gateway.send(message("next", MessagePriority::Queued));
    gateway.acknowledged(id, "injected").await;
    gateway.sees("assistant_message text second").await;
    gateway.sees_nth("turn_completed", 2).await;
    let at = gateway.sees_nth("turn_started", 2).await;
    assert!(gateway.delivered()[at].body["messageId"].is_string());
}

/// The id of the first call of a tool.
async fn call(gateway: &Gateway, tool: &str) -> ToolCallId {
    let at = gateway.sees(&format!("assistant_message tool {tool}")).await;
    gateway.delivered()[at].body["content"]["toolCallId"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn recorded_tour_waits_at_question_plan_and_message() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../tests/fixtures/transcripts/claude-stdio-full-tour.stdout.jsonl"
    );
    let (gateway, _folders, _sidecar) = playing_options(json!({ "recording": path, "speed": 0 })).await;
    let question = call(&gateway, "AskUserQuestion").await;
    let id = gateway.send(Command::Answer { request_id: question, answers: vec![], modified_input: None });
    gateway.acknowledged(id, "done").await;
    let plan = call(&gateway, "ExitPlanMode").await;
    let id = gateway.send(Command::PlanDecision { request_id: plan, approved: true, feedback: None });
    gateway.acknowledged(id, "done").await;
    let id = gateway.send(message("steer", MessagePriority::Immediate));
    gateway.acknowledged(id, "injected").await;
    gateway.sees("turn_completed").await;
    let story = gateway.story();
    for what in ["subagent_started", "subagent_ended", "task_list", "usage_update", "tool_result"] {
        assert!(story.iter().any(|s| s.starts_with(what)), "{what} is missing in {story:#?}");
    }
}
