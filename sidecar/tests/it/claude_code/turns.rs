//! Turns: real work, messages in progress, subagents.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pilothouse_domain::value::MessagePriority;
use pilothouse_model_server::{Script, Step, fixture};
use serde_json::{Value, json};

use super::{Agent, KEY, bash, begun, let_go, waiting};
use crate::sidecar::{message, message_with};

#[tokio::test]
async fn claude_reads_edits_and_tests_until_the_tests_pass() {
    let Some(agent) = Agent::idle(fixture::make_the_tests_pass().unwrap()).await else { return };
    fixture::broken_calculator(&agent.work()).unwrap();
    assert!(!fixture::tests_pass(&agent.work()).unwrap());
    agent.begin(|begin| begin.prompt = Some(fixture::TASK.into()));
    agent.gateway.sees("turn_completed").await;
    assert!(fixture::tests_pass(&agent.work()).unwrap(), "{:#?}", agent.story());
    let story = agent.story();
    let position = |what: &str| {
        story.iter().position(|line| line.starts_with(what)).unwrap_or_else(|| panic!("{what}: {story:#?}"))
    };
    assert!(position("agent_settings") < position("turn_started"));
    assert!(position("notice agent_version") < position("tool Read"));
    assert!(position("tool Read") < position("tool Edit"));
    assert!(story.last().is_some_and(|last| last == "turn_completed"), "{story:#?}");
    assert!(
        story.iter().any(|line| line.contains("All tests pass. ") && line.contains("Ran ")),
        "{story:#?}"
    );
    let usage = agent.events("usage_update");
    assert_ne!(usage.last().unwrap()["costUsd"], "0");
    let sealed = agent.gateway.delivered().iter().map(|e| e.sealed.clone()).collect::<String>();
    assert!(!sealed.contains(KEY) && !sealed.contains("ph_x"), "no key is published");
}

#[tokio::test]
async fn an_immediate_message_enters_the_turn_between_its_tools() {
    let Some(agent) = Agent::idle(Script::default()).await else { return };
    let command = waiting(&agent.work(), "gate");
    agent.model.play(Script::of([bash(&command), Step::text("as you say")]));
    agent.begin(|_| {});
    begun(&agent, "gate").await;
    let id = agent.gateway.send(message("use British spelling", MessagePriority::Immediate));
    agent.gateway.acknowledged(id, "injecting").await;
    let_go(&agent, "gate");
    agent.gateway.acknowledged(id, "injected").await;
    agent.gateway.sees("turn_completed").await;
    assert_eq!(agent.events("turn_started").len(), 1, "within the turn");
    let second = &agent.prompts()[1];
    let last = second["messages"].as_array().unwrap().last().unwrap().to_string();
    assert!(last.contains("went on") && last.contains("use British spelling"));
}

#[tokio::test]
async fn model_sees_the_images_of_the_objective_and_of_messages() {
    let Some(agent) = Agent::idle(Script::of([Step::text("one"), Step::text("two")])).await else { return };
    // Claude Code may scale images, so this one is complete.
    let pixel =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let shown = agent.gateway.image(&STANDARD.decode(pixel).unwrap());
    agent.begin(|begin| begin.images = vec![shown.clone()]);
    agent.gateway.sees("turn_completed").await;
    let id = agent.gateway.send(message_with("look", vec![shown], MessagePriority::Queued));
    agent.gateway.acknowledged(id, "injected").await;
    agent.gateway.sees_nth("turn_completed", 2).await;
    let started = agent.events("turn_started");
    assert!(started[1]["messageId"].is_string(), "the prompt is recognised: {started:#?}");
    let images = |prompt: &Value| prompt["messages"].to_string().matches("\"type\":\"image\"").count();
    let prompts = agent.prompts();
    assert_eq!(images(&prompts[0]), 1, "{:#}", prompts[0]);
    assert_eq!(images(prompts.last().unwrap()), 2);
}

#[tokio::test]
async fn queued_message_starts_the_next_turn_under_its_id() {
    let steps = [Step::text("first").waiting("first"), Step::text("second")];
    let Some(agent) = Agent::says(steps).await else { return };
    agent.asked(1).await;
    let queued = message("and then", MessagePriority::Queued);
    let pilothouse_wire::Command::SteeringMessage { message_id, .. } = &queued else { panic!() };
    let message_id = message_id.to_string();
    let id = agent.gateway.send(queued);
    agent.gateway.acknowledged(id, "received").await;
    agent.model.open("first");
    agent.gateway.acknowledged(id, "injected").await;
    agent.gateway.sees_nth("turn_completed", 2).await;
    let started = agent.events("turn_started");
    assert_eq!(started[1]["messageId"], message_id.as_str(), "{started:#?}");
    assert_eq!(
        agent
            .story()
            .into_iter()
            .filter(|line| line.starts_with("te") || line.starts_with("tu"))
            .collect::<Vec<_>>(),
        ["turn_started", "text first", "turn_completed", "turn_started", "text second", "turn_completed"]
    );
}

#[tokio::test]
async fn turn_completes_with_its_background_subagent() {
    let task = json!({ "description": "Look", "prompt": "look around", "subagent_type": "general-purpose",
        "run_in_background": true });
    let conversation = |name: &str, when: &str, steps: Vec<Step>| pilothouse_model_server::Conversation {
        name: name.into(),
        when: Some(when.into()),
        steps,
        ..pilothouse_model_server::Conversation::default()
    };
    let script = Script {
        conversations: vec![
            conversation(
                "main",
                "do the work",
                vec![Step::tool("Task", task), Step::text("it looks"), Step::text("it has looked")],
            ),
            conversation("sub", "look around", vec![Step::text("nothing here").waiting("sub")]),
        ],
        ..Script::default()
    };
    let Some(agent) = Agent::idle(script).await else { return };
    agent.begin(|_| {});
    agent.gateway.sees("assistant_message text it looks").await;
    assert!(agent.events("turn_completed").is_empty(), "its subagent works");
    agent.model.open("sub");
    agent.gateway.sees("subagent_ended").await;
    agent.gateway.sees("turn_completed").await;
    let story = agent.story();
    let at = |what: &str| story.iter().position(|line| line.starts_with(what)).unwrap();
    assert!(
        at("subagent_started") < at("subagent_message") && at("subagent_ended") < at("turn_completed"),
        "{story:#?}"
    );
}
