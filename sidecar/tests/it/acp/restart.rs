//! A new process in the same conversation: after a kill, after an end between turns, and for a new configuration. Also
//! compaction.

use pilothouse_domain::CommandId;
use pilothouse_domain::value::{Adjustment, McpToolDefinition, MessagePriority};
use pilothouse_wire::Command;
use serde_json::{Value, json};

use super::{Harness, fake};
use crate::sidecar::{config, message};

fn impatient(can: &str) -> Value {
    let mut options = fake(can);
    options["cancelSeconds"] = 1.into();
    options
}

/// For each process of the agent, whether it resumed the conversation.
fn taken_up(harness: &Harness) -> Vec<bool> {
    let delivered = harness.gateway.delivered();
    let connected = delivered.iter().filter(|e| e.body["name"] == "agent_connected");
    connected.map(|e| e.body["detail"]["conversationTakenUp"].as_bool().unwrap()).collect()
}

async fn interrupted_in_vain(harness: &Harness) {
    harness.gateway.sees("turn_started").await;
    let interrupt = harness.gateway.send(Command::Interrupt {});
    harness.gateway.acknowledged(interrupt, "done").await;
    let story = harness.reported_lines();
    let at = |what: &str| story.iter().position(|s| s.starts_with(what)).unwrap();
    assert!(at("notice agent_killed") < at("interrupt_ack done"), "{story:#?}");
    assert!(!story.iter().any(|s| s.starts_with("session_end")));
}

#[tokio::test]
async fn agent_that_ignores_an_interrupt_is_killed_and_resumed() {
    let harness = Harness::empty().await;
    harness.begin(impatient("load"), false, Some("stubborn"), |_| {});
    interrupted_in_vain(&harness).await;
    let id = harness.gateway.send(message("say again", MessagePriority::Queued));
    harness.gateway.acknowledged(id, "injected").await;
    harness.gateway.sees("turn_completed").await;
    assert_eq!(taken_up(&harness), [false, true]);
    let story = harness.reported_lines();
    assert!(story.iter().any(|s| s == "assistant_message text again"), "{story:#?}");
    assert!(!story.iter().any(|s| s.contains("past")), "earlier updates are not published again");
}

#[tokio::test]
async fn unresumable_agent_restarts_with_a_notice_and_instructions() {
    let harness = Harness::empty().await;
    harness.begin(impatient(""), false, Some("stubborn"), |begin| {
        begin.config.composed_system_prompt = "Be brief.".into();
    });
    interrupted_in_vain(&harness).await;
    harness.gateway.send(message("introduction", MessagePriority::Queued));
    harness.gateway.sees("turn_completed").await;
    let story = harness.reported_lines();
    let at = |what: &str| story.iter().position(|s| s.starts_with(what)).unwrap();
    assert!(at("notice agent_killed") < at("notice conversation_lost"), "{story:#?}");
    assert!(story.iter().any(|s| s.ends_with("Be brief.")), "it is a new conversation: {story:#?}");
}

#[tokio::test]
async fn message_lost_with_a_killed_agent_is_refused_and_not_resent() {
    let harness = Harness::empty().await;
    harness.begin(impatient("load,steer,silent"), false, Some("stubborn"), |_| {});
    harness.gateway.sees("turn_started").await;
    let steering = harness.gateway.send(message("say faster", MessagePriority::Immediate));
    harness.gateway.acknowledged(steering, "injecting").await;
    interrupted_in_vain(&harness).await;
    harness.gateway.acknowledged(steering, "turn-over").await;
    harness.gateway.send(message("say again", MessagePriority::Queued));
    harness.gateway.sees("turn_completed").await;
    assert!(
        !harness.reported_lines().iter().any(|s| s.contains("faster")),
        "{:#?}",
        harness.reported_lines()
    );
}

#[tokio::test]
async fn agent_that_ended_between_turns_restarts_on_a_message() {
    let harness = Harness::playing("load", "leave").await;
    harness.gateway.sees("turn_completed").await;
    harness.gateway.sees("notice agent_ended").await;
    harness.gateway.send(message("say again", MessagePriority::Queued));
    harness.gateway.sees_nth("turn_completed", 2).await;
    assert_eq!(taken_up(&harness), [false, true]);
}

fn reload(harness: &Harness, can: &str, prompt: &str, server: &str) -> CommandId {
    let mut config = config(fake(can));
    config.model_id = "default".into();
    config.composed_system_prompt = prompt.into();
    let tool = json!({"name": "t", "description": "d", "inputSchema": "{}", "serverUri": format!("stdio://{server}")});
    config.custom_tools = vec![serde_json::from_value::<McpToolDefinition>(tool).unwrap()];
    harness.gateway.send(Command::ReloadConfig { config: Box::new(config) })
}

#[tokio::test]
async fn reload_restarts_the_agent_in_the_same_conversation() {
    let harness = Harness::playing("load", "say before").await;
    harness.gateway.sees("turn_completed").await;
    assert_eq!(harness.abilities()["hotReload"], true);
    let id = reload(&harness, "load", "Be brief.", "/opt/tools");
    harness.gateway.acknowledged(id, "done").await;
    assert_eq!(taken_up(&harness), [false, true]);
    harness.gateway.send(message("servers", MessagePriority::Queued));
    harness.gateway.sees_nth("turn_completed", 2).await;
    assert!(
        harness.reported_lines().iter().any(|s| s.contains("/opt/tools")),
        "{:#?}",
        harness.reported_lines()
    );
    harness.gateway.send(message("introduction", MessagePriority::Queued));
    harness.gateway.sees_nth("turn_completed", 3).await;
    assert!(
        harness.reported_lines().iter().any(|s| s.ends_with("Be brief.")),
        "{:#?}",
        harness.reported_lines()
    );
}

#[tokio::test]
async fn impossible_reload_is_refused_and_keeps_the_configuration() {
    // The agent cannot resume conversations.
    let harness = Harness::playing("", "say before").await;
    harness.gateway.sees("turn_completed").await;
    assert_eq!(harness.abilities()["hotReload"], false);
    let id = reload(&harness, "", "Be brief.", "/opt/tools");
    harness.gateway.acknowledged(id, "not-supported").await;

    // During a turn.
    let harness = Harness::playing("load", "hang").await;
    harness.gateway.sees("assistant_message tool Bash").await;
    let id = reload(&harness, "load", "", "/opt/tools");
    harness.gateway.acknowledged(id, "invalid").await;
    let interrupt = harness.gateway.send(Command::Interrupt {});
    harness.gateway.acknowledged(interrupt, "done").await;

    // The agent fails to start with the new configuration, and starts with the old one.
    let id = reload(&harness, "load", "", "/opt/broken");
    harness.gateway.acknowledged(id, "invalid").await;
    harness.gateway.send(message("servers", MessagePriority::Queued));
    harness.gateway.sees("turn_completed").await;
    let story = harness.reported_lines();
    assert!(!story.iter().any(|s| s.contains("/opt/broken") || s.starts_with("session_end")), "{story:#?}");
    assert_eq!(taken_up(&harness), [false, true]);
}

fn compact(harness: &Harness, instructions: &str) -> CommandId {
    let adjustment = Adjustment::Compact { instructions: Some(instructions.into()) };
    harness.gateway.send(Command::Adjust { adjustment })
}

#[tokio::test]
async fn compaction_is_an_agent_command_and_no_turn() {
    let harness = Harness::playing("compact", "ask").await;
    harness.gateway.sees("question_asked").await;
    assert_eq!(harness.abilities()["compaction"], true);
    let id = compact(&harness, "the tests");
    // The compaction waits for the end of the turn, and messages wait for the end of the compaction.
    let said = harness.gateway.send(message("say after", MessagePriority::Queued));
    harness.gateway.acknowledged(said, "received").await;
    let answers = vec![pilothouse_domain::value::Answer {
        question: "May the agent use Bash: touch x?".into(),
        answer: "Yes".into(),
    }];
    harness.gateway.send(Command::Answer {
        request_id: "c1".parse().unwrap(),
        answers,
        modified_input: None,
    });
    harness.gateway.acknowledged(id, "done").await;
    harness.gateway.sees_nth("turn_completed", 2).await;
    let story = harness.reported_lines();
    let at = |what: &str| story.iter().position(|s| s.starts_with(what)).unwrap();
    assert!(at("turn_completed") < at("notice compacted") && at("notice compacted") < at("adjust_ack done"));
    assert!(at("adjust_ack done") < at("message_ack injecting"), "{story:#?}");
    assert_eq!(harness.event("notice compacted").await["summary"], "Summarised: the tests");
    assert_eq!(story.iter().filter(|s| s.starts_with("turn_started")).count(), 2, "{story:#?}");
    assert!(!story.iter().any(|s| s.starts_with("assistant_message text Summarised")), "{story:#?}");
    assert!(story.iter().any(|s| s.starts_with("usage_update")), "its usage counts");
}

#[tokio::test]
async fn unsupported_or_empty_compaction_is_refused() {
    let harness = Harness::playing("", "say x").await;
    harness.gateway.sees("turn_completed").await;
    assert_eq!(harness.abilities()["compaction"], false);
    harness.gateway.acknowledged(compact(&harness, ""), "not-supported").await;

    let harness = Harness::empty().await;
    harness.begin(fake("compact"), false, None, |_| {});
    harness.gateway.sees("notice agent_connected").await;
    harness.gateway.acknowledged(compact(&harness, ""), "invalid").await;
    harness.gateway.send(message("say x", MessagePriority::Queued));
    harness.gateway.sees("turn_completed").await;
    let id = compact(&harness, "slowly");
    let interrupt = harness.gateway.send(Command::Interrupt {});
    harness.gateway.acknowledged(id, "invalid").await;
    harness.gateway.acknowledged(interrupt, "done").await;
}

#[tokio::test]
async fn reported_abilities_match_the_agent() {
    let harness = Harness::playing("steer", "say x").await;
    harness.gateway.sees("turn_completed").await;
    let can = harness.abilities();
    let yes = ["steerMidTurn", "pause", "approvals", "modelSwitch", "allowance"];
    let all = can.as_object().unwrap();
    // Its turns show whether its spend is known.
    let of_the_agent = all.iter().filter(|(name, can)| **can == true && *name != "unmetered");
    let names: Vec<_> = of_the_agent.map(|(name, _)| name.as_str()).collect();
    let expected: std::collections::BTreeSet<_> = yes.into();
    assert_eq!(names.into_iter().collect::<std::collections::BTreeSet<_>>(), expected);
}

#[tokio::test]
async fn a_conversation_that_its_model_refuses_is_begun_anew_in_the_same_turn() {
    let harness = Harness::playing("load,breaks", "hang").await;
    harness.gateway.sees("assistant_message tool Bash").await;
    let interrupt = harness.gateway.send(Command::Interrupt {});
    harness.gateway.acknowledged(interrupt, "done").await;
    harness.gateway.send(message("introduction", MessagePriority::Queued));
    harness.gateway.sees("turn_completed").await;
    assert_eq!(taken_up(&harness), [false, false]);
    let story = harness.reported_lines();
    assert!(story.iter().any(|s| s == "notice conversation_lost"), "{story:#?}");
    assert_eq!(story.iter().filter(|s| s.starts_with("turn_started")).count(), 2, "{story:#?}");
    let said = harness.event("assistant_message text").await;
    assert!(said["content"]["text"].as_str().unwrap().contains("hang"), "it reads what was done: {said}");
}

#[tokio::test]
async fn unresumable_conversation_is_loaded() {
    let harness = Harness::playing("resume,load", "leave").await;
    harness.gateway.sees("turn_completed").await;
    harness.gateway.sees("notice agent_ended").await;
    harness.gateway.send(message("say again", MessagePriority::Queued));
    harness.gateway.sees_nth("turn_completed", 2).await;
    assert_eq!(taken_up(&harness), [false, true]);
}

#[tokio::test]
async fn agent_that_lost_its_conversation_gets_an_account() {
    let harness = Harness::empty().await;
    harness.begin(fake(""), false, Some("terminal"), |begin| {
        begin.config.objective = "Build the bridge.".into();
    });
    harness.gateway.sees("turn_completed").await;
    harness.gateway.send(message("say the piers stand", MessagePriority::Queued));
    harness.gateway.sees_nth("turn_completed", 2).await;
    let harness = harness.next_run().await;
    harness.begin(fake(""), true, Some("introduction"), |begin| {
        begin.config.objective = "Build the bridge.".into();
    });
    harness.gateway.sees("turn_completed").await;
    let story = harness.reported_lines();
    assert!(story.iter().any(|line| line.starts_with("notice conversation_lost")), "{story:#?}");
    let read = story.iter().find(|line| line.starts_with("assistant_message text")).unwrap();
    for known in [
        "Build the bridge.",
        "say the piers stand",
        "run {\"command\":\"echo\"}: done: out",
        "the piers stand",
    ] {
        assert!(read.contains(known), "{known}: {read}");
    }
}

#[tokio::test]
async fn run_without_saved_state_gets_the_task() {
    let harness = Harness::empty().await;
    harness.begin(fake("load"), true, Some("introduction"), |begin| {
        begin.config.objective = "Build the bridge.".into();
    });
    harness.gateway.sees("turn_completed").await;
    let story = harness.reported_lines();
    assert!(story.iter().any(|line| line.contains("Build the bridge.")), "{story:#?}");
}
