//! Changes at run time: model, thinking, context, configuration.

use pilothouse_domain::value::{Adjustment, CycleDirection, MessagePriority, ThinkingLevel};
use pilothouse_model_server::Step;
use pilothouse_wire::Command;
use serde_json::json;

use super::{Agent, MODEL};
use crate::sidecar::message;

#[tokio::test]
async fn model_and_thinking_change_from_the_next_call() {
    let steps = [Step::text("one"), Step::text("two"), Step::text("three")];
    let change = |begin: &mut pilothouse_wire::command::Begin| {
        begin.config.adapter_options = json!({ "models": [MODEL, "claude-haiku-4-5"] });
    };
    let Some(agent) = Agent::with(steps, change).await else { return };
    agent.gateway.sees("turn_completed").await;
    let adjust = |adjustment| agent.gateway.send(Command::Adjust { adjustment });
    let cycled = adjust(Adjustment::CycleModel { direction: CycleDirection::Forward });
    agent.gateway.acknowledged(cycled, "done").await;
    let thinking = adjust(Adjustment::SetThinkingLevel { level: ThinkingLevel::Off });
    agent.gateway.acknowledged(thinking, "done").await;
    agent.gateway.send(message("again", MessagePriority::Queued));
    agent.gateway.sees_nth("turn_completed", 2).await;
    let prompts = agent.prompts();
    assert_eq!((&prompts[0]["model"], &prompts[1]["model"]), (&json!(MODEL), &json!("claude-haiku-4-5")));
    assert_eq!(prompts[0]["thinking"]["type"], "enabled");
    assert_ne!(prompts[1]["thinking"]["type"], "enabled");
    let settings = agent.events("agent_settings");
    assert_eq!(settings[0]["availableModels"], json!([MODEL, "claude-haiku-4-5"]));
    assert_eq!(settings.last().unwrap()["thinkingLevel"], "off");
    let fork = adjust(Adjustment::Fork { before_turn_id: pilothouse_domain::TurnId::parse("t").unwrap() });
    agent.gateway.acknowledged(fork, "not-supported").await;
    let fresh = adjust(Adjustment::NewConversation {});
    agent.gateway.acknowledged(fresh, "not-supported").await;
}

#[tokio::test]
async fn limits_without_an_option_of_claude_code_are_named() {
    let policy = json!({
        "historyPolicy": "recent_n", "historyN": 3, "maxTurns": 7, "contextBudgetTokens": 50_000,
    });
    let change = |begin: &mut pilothouse_wire::command::Begin| {
        begin.config.policies.session_policy = Some(serde_json::from_value(policy).unwrap());
    };
    let Some(agent) = Agent::with([Step::text("one")], change).await else { return };
    let at = agent.gateway.sees("notice session_policy_left_out").await;
    let summary = agent.gateway.delivered()[at].body["summary"].as_str().unwrap().to_owned();
    assert!(summary.ends_with("skipped: contextBudgetTokens, historyN"), "{summary}");
}

#[tokio::test]
async fn compaction_is_no_turn_and_the_conversation_continues() {
    let steps = [Step::text("one"), Step::text("two"), Step::text("THE SUMMARY"), Step::text("three")];
    let Some(agent) = Agent::says(steps).await else { return };
    agent.gateway.sees("turn_completed").await;
    let compact = |instructions: Option<String>| {
        agent.gateway.send(Command::Adjust { adjustment: Adjustment::Compact { instructions } })
    };
    let too_early = compact(None);
    let refused = agent.gateway.acknowledged(too_early, "invalid").await;
    assert!(refused.body["message"].as_str().unwrap().contains("Not enough messages"), "{}", refused.body);
    agent.gateway.send(message("more", MessagePriority::Queued));
    agent.gateway.sees_nth("turn_completed", 2).await;
    let instructions = Some("keep the numbers".to_owned());
    let compacted = compact(instructions);
    agent.gateway.acknowledged(compacted, "done").await;
    agent.gateway.sees("notice compact_boundary").await;
    assert_eq!(agent.events("turn_started").len(), 2, "{:#?}", agent.story());
    agent.gateway.send(message("and now?", MessagePriority::Queued));
    agent.gateway.sees_nth("turn_completed", 3).await;
    let prompts = agent.prompts();
    assert!(prompts[2].to_string().contains("keep the numbers"));
    assert!(prompts.last().unwrap().to_string().contains("THE SUMMARY"));
}

#[tokio::test]
async fn reloaded_configuration_applies_from_the_next_turn() {
    let Some(agent) = Agent::says([Step::text("one"), Step::text("two")]).await else { return };
    agent.gateway.sees("turn_completed").await;
    let mut config = agent.config();
    config.composed_system_prompt = "Speak like a pirate.".into();
    let reload = agent.gateway.send(Command::ReloadConfig { config: Box::new(config) });
    agent.gateway.acknowledged(reload, "done").await;
    agent.gateway.send(message("again", MessagePriority::Queued));
    agent.gateway.sees_nth("turn_completed", 2).await;
    let prompts = agent.prompts();
    assert!(!prompts[0].to_string().contains("pirate"));
    let second = prompts[1].to_string();
    assert!(second.contains("pirate") && second.contains("do the work") && second.contains("one"));
}
