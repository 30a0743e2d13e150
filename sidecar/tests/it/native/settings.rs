//! Adjustments and reloads (S1 5).

use pilothouse_domain::value::{Adjustment, CycleDirection, MessagePriority, ThinkingLevel};
use pilothouse_model_server::{Script, Step};
use pilothouse_wire::Command;
use serde_json::json;

use super::Agent;
use crate::sidecar::message;

fn adjust(adjustment: Adjustment) -> Command {
    Command::Adjust { adjustment }
}

#[tokio::test]
async fn model_and_thinking_changes_apply_and_are_reported() {
    let agent = Agent::says([Step::text("One."), Step::text("Two.")]).await;
    agent.gateway.sees("turn_completed").await;
    let set =
        agent.gateway.send(adjust(Adjustment::SetModel { model_id: "anthropic/claude-haiku-4-5".into() }));
    agent.gateway.acknowledged(set, "done").await;
    let think = agent.gateway.send(adjust(Adjustment::SetThinkingLevel { level: ThinkingLevel::High }));
    agent.gateway.acknowledged(think, "done").await;
    let delivered = agent.gateway.delivered();
    let settings = delivered.iter().rfind(|e| e.kind() == "agent_settings").unwrap();
    assert_eq!(settings.body["modelId"], "anthropic/claude-haiku-4-5");
    assert_eq!(settings.body["thinkingLevel"], "high");
    let available = settings.body["availableModels"].as_array().unwrap();
    assert!(available.contains(&json!("anthropic/claude-haiku-4-5")), "{available:?}");
    agent.gateway.send(message("next", MessagePriority::Queued));
    agent.gateway.sees_nth("turn_completed", 2).await;
    let last = agent.last_request();
    assert_eq!(last["model"], "claude-haiku-4-5");
    assert!(last.get("thinking").is_some(), "{last:#}");

    let cycle = agent.gateway.send(adjust(Adjustment::CycleModel { direction: CycleDirection::Forward }));
    agent.gateway.acknowledged(cycle, "done").await;
    let wrong = agent.gateway.send(adjust(Adjustment::SetModel { model_id: "openai/gpt-5".into() }));
    agent.gateway.acknowledged(wrong, "invalid").await;
}

#[tokio::test]
async fn fork_omits_a_turn_and_everything_after_it() {
    let agent = Agent::says([Step::text("One."), Step::text("Two."), Step::text("Three.")]).await;
    agent.gateway.sees("turn_completed").await;
    agent.gateway.send(message("the second thing", MessagePriority::Queued));
    agent.gateway.sees_nth("turn_completed", 2).await;
    let delivered = agent.gateway.delivered();
    let turns: Vec<_> = delivered.iter().filter(|e| e.kind() == "turn_started").collect();
    let before_turn_id = turns[1].body["turnId"].as_str().unwrap().parse().unwrap();
    let fork = agent.gateway.send(adjust(Adjustment::Fork { before_turn_id }));
    agent.gateway.acknowledged(fork, "done").await;
    agent.gateway.send(message("the other thing", MessagePriority::Queued));
    agent.gateway.sees_nth("turn_completed", 3).await;
    let last = agent.last_request()["messages"].to_string();
    assert!(last.contains("do the work") && last.contains("the other thing"), "{last}");
    assert!(!last.contains("the second thing") && !last.contains("Two."), "{last}");
    let unknown = agent.gateway.send(adjust(Adjustment::Fork { before_turn_id: "turn-x".parse().unwrap() }));
    agent.gateway.acknowledged(unknown, "invalid").await;
}

#[tokio::test]
async fn reload_changes_prompt_and_permissions_at_once() {
    let agent = Agent::says([Step::text("One."), Step::text("Two.")]).await;
    agent.gateway.sees("turn_completed").await;
    let mut config = agent.config();
    config.composed_system_prompt = "Speak like a sailor.".into();
    config.allowed_tools = vec!["Read".into()];
    let reload = agent.gateway.send(Command::ReloadConfig { config: Box::new(config) });
    agent.gateway.acknowledged(reload, "done").await;
    agent.gateway.send(message("next", MessagePriority::Queued));
    agent.gateway.sees_nth("turn_completed", 2).await;
    let last = agent.last_request();
    assert!(last["system"].to_string().contains("like a sailor"), "{last:#}");
    let tools: Vec<_> =
        last["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert!(tools.contains(&"read") && tools.contains(&"TodoWrite"), "{tools:?}");
    assert!(!tools.contains(&"bash") && !tools.contains(&"write"), "{tools:?}");
    assert!(last["messages"].to_string().contains("do the work"), "the conversation continues");
}

#[tokio::test]
async fn requested_summary_replaces_the_conversation() {
    let script = Script {
        otherwise: Some(Step { text: Some("A summary of it all.".into()), repeat: true, ..Step::default() }),
        ..Script::of([Step::text("One.")])
    };
    let agent = Agent::idle(script).await;
    agent.begin(|_| {});
    agent.gateway.sees("turn_completed").await;
    let compact =
        agent.gateway.send(adjust(Adjustment::Compact { instructions: Some("mind the sails".into()) }));
    agent.gateway.acknowledged(compact, "done").await;
    assert!(agent.last_request().to_string().contains("mind the sails"));
    agent.gateway.sees("notice auto_compaction_end").await;
    let delivered = agent.gateway.delivered();
    for name in ["auto_compaction_start", "auto_compaction_end"] {
        let notice = delivered.iter().find(|event| event.body["name"] == name).unwrap();
        assert_eq!(notice.body["detail"]["reason"], "manual", "{name}");
    }
}

#[tokio::test]
async fn assumed_limits_of_an_unknown_model_are_reported() {
    let agent = Agent::idle(Script::of([Step::text("One.")])).await;
    agent.begin(|begin| (begin.config.model_id, begin.prompt) = ("anthropic/brand-new".into(), None));
    agent.gateway.sees("notice agent_setup").await;
    let set = agent.gateway.send(adjust(Adjustment::SetModel { model_id: "anthropic/newer".into() }));
    agent.gateway.acknowledged(set, "done").await;
    let delivered = agent.gateway.delivered();
    for (name, warning) in [
        ("agent_setup", "the model anthropic/brand-new is not known: "),
        ("unknown_model", "the model anthropic/newer is not known: "),
    ] {
        let mut notices = delivered.iter().filter(|event| event.body["name"] == name);
        let warns = notices.any(|notice| notice.body["summary"].as_str().unwrap().starts_with(warning));
        assert!(warns, "{name}");
    }
}

#[tokio::test]
async fn subagents_of_skills_are_left_out_with_a_notice() {
    let agent = Agent::idle(pilothouse_model_server::Script::of([Step::text("done")])).await;
    agent.begin(|begin| {
        begin.config.sub_agents = serde_json::from_value(serde_json::json!([{ "name": "tester",
            "description": "d", "modelId": "m", "instructions": "i" }]))
        .unwrap();
    });
    agent.gateway.sees("notice sub_agents_left_out").await;
}
