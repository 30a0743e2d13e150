//! After a kill at any moment, the next run resumes the same conversation.

use std::time::Duration;

use pilothouse_domain::value::MessagePriority;
use pilothouse_model_server::{Conversation, Progress, Script, Step};
use serde_json::Value;

use super::{Agent, bash, begun, waiting};
use crate::sidecar::message;

fn said(request: &Value) -> String {
    request["messages"].to_string()
}

#[tokio::test]
async fn kill_in_a_tool_leaves_an_interrupted_result_and_no_process() {
    let mut agent = Agent::idle(Script::default()).await;
    let first = waiting(&agent.work(), "first");
    agent.model.play(Script::of([bash(&format!("echo $$ > pid; {first}")), Step::text("Where was I?")]));
    agent.begin(|_| {});
    begun(&agent, "first").await;
    let pid: i32 = std::fs::read_to_string(agent.work().join("pid")).unwrap().trim().parse().unwrap();
    agent.killed_and_resumed(None).await;
    agent.gateway.sees("agent_settings").await;
    let gone = |_: &_| (!std::path::Path::new(&format!("/proc/{pid}")).exists()).then_some(());
    agent.gateway.until("the end of the tool", gone).await;
    agent.gateway.send(message("go on", MessagePriority::Immediate));
    agent.gateway.sees("turn_completed").await;
    let last = agent.last_request();
    assert!(said(&last).contains("do the work") && said(&last).contains("go on"), "{last:#}");
    assert!(said(&last).contains("tool_result"), "the open call has a result: {last:#}");
}

/// Each answer depends only on the request, so that a repeated request gets the same answer.
fn long(steps: usize) -> Script {
    let step = |n| bash(&format!("echo {n} >> log"));
    let all = (0..steps).map(step).chain([Step::text("Done.")]).collect();
    let conversation = Conversation { progress: Progress::History, steps: all, ..Conversation::default() };
    Script { conversations: vec![conversation], otherwise: Some(Step::text("Done.")), ..Script::default() }
}

#[tokio::test]
async fn kills_at_random_points_never_lose_the_conversation() {
    let mut agent = Agent::idle(long(60)).await;
    agent.begin(|_| {});
    let mut asked = 0;
    for round in 0..5_u64 {
        // During a model call or a tool: after some requests and a random delay.
        agent.model.wait_for(asked + 2).await;
        tokio::time::sleep(Duration::from_micros(u64::from(uuid::Uuid::now_v7().as_bytes()[15]) * 35)).await;
        asked = agent.model.prompts().len();
        agent.killed_and_resumed(Some(&format!("go on {round}"))).await;
    }
    agent.gateway.sees("turn_completed").await;
    let last = said(&agent.last_request());
    assert!(last.contains("do the work"), "the beginning is missing: {last}");
    for round in 0..5 {
        assert!(last.contains(&format!("go on {round}")), "messages of a run are missing: {last}");
    }
    let log = std::fs::read_to_string(agent.work().join("log")).unwrap();
    assert!(log.lines().count() >= 2, "{log}");
}

#[tokio::test]
async fn a_fresh_start_has_a_new_conversation() {
    let mut agent = Agent::says([Step::text("One."), Step::text("Two.")]).await;
    agent.gateway.sees("turn_completed").await;
    agent.killed().await;
    agent.begin(|begin| begin.prompt = Some("something else".into()));
    agent.gateway.sees("turn_completed").await;
    let last = agent.last_request();
    assert!(!said(&last).contains("do the work"), "{last:#}");
}
