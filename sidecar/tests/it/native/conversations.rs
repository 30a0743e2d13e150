//! Conversations within the session: new ones, switches, labels (S1 5, 9).

use pilothouse_domain::TurnId;
use pilothouse_domain::value::{Adjustment, ConversationTarget, MessagePriority};
use pilothouse_model_server::{Script, Step, Tokens};
use pilothouse_wire::Command;
use serde_json::{Value, json};

use super::{Agent, bash, begun, let_go, waiting};
use crate::sidecar::message;

async fn adjust(agent: &Agent, adjustment: Adjustment, step: &str) -> Value {
    let id = agent.gateway.send(Command::Adjust { adjustment });
    agent.gateway.acknowledged(id, step).await.body
}

/// Sends a message. Returns the conversation of the model's next request.
async fn ask(agent: &Agent, text: &str, turn: usize) -> String {
    agent.gateway.send(message(text, MessagePriority::Queued));
    agent.gateway.sees_nth("turn_completed", turn).await;
    agent.last_request()["messages"].to_string()
}

/// The latest report of the conversations.
fn reported(agent: &Agent) -> Value {
    let delivered = agent.gateway.delivered();
    delivered.iter().rfind(|event| event.kind() == "conversations").unwrap().body.clone()
}

fn turns(agent: &Agent) -> Vec<TurnId> {
    let delivered = agent.gateway.delivered();
    let started = delivered.iter().filter(|event| event.kind() == "turn_started");
    started.map(|event| event.body["turnId"].as_str().unwrap().parse().unwrap()).collect()
}

fn says(times: usize) -> Vec<Step> {
    (1..=times).map(|n| Step::text(format!("Answer {n}."))).collect()
}

#[tokio::test]
async fn new_conversation_is_empty_and_the_first_one_can_continue() {
    let agent = Agent::says(says(3)).await;
    agent.gateway.sees("turn_completed").await;
    assert!(!agent.gateway.story().iter().any(|event| event == "conversations"), "there is only one");
    adjust(&agent, Adjustment::NewConversation {}, "done").await;
    let branches = reported(&agent)["branches"].clone();
    let (first, second) = (&branches[0], &branches[1]);
    assert_eq!([&first["isCurrent"], &second["isCurrent"]], [&json!(false), &json!(true)]);
    assert_eq!([&first["turns"], &second["turns"]], [&json!(1), &json!(0)]);
    assert_eq!(second["parentId"], first["conversationId"]);
    let fresh = ask(&agent, "something else", 2).await;
    assert!(fresh.contains("something else") && !fresh.contains("do the work"), "{fresh}");

    let target = ConversationTarget::ConversationId(first["conversationId"].as_str().unwrap().into());
    adjust(&agent, Adjustment::SwitchConversation { target }, "done").await;
    let current = reported(&agent)["branches"][0].clone();
    assert_eq!([&current["isCurrent"], &current["turns"]], [&json!(true), &json!(1)]);
    let continued = ask(&agent, "go on", 3).await;
    assert!(continued.contains("do the work") && continued.contains("go on"), "{continued}");
    assert!(!continued.contains("something else"), "{continued}");
    let target = ConversationTarget::ConversationId("no-such".into());
    adjust(&agent, Adjustment::SwitchConversation { target }, "invalid").await;
}

#[tokio::test]
async fn branch_that_a_fork_left_can_be_continued_by_its_turn() {
    let agent = Agent::says(says(5)).await;
    agent.gateway.sees("turn_completed").await;
    ask(&agent, "the second thing", 2).await;
    let second = turns(&agent)[1].clone();
    adjust(&agent, Adjustment::Fork { before_turn_id: second.clone() }, "done").await;
    ask(&agent, "the other thing", 3).await;
    let branches = reported(&agent)["branches"].clone();
    assert_eq!(branches[0]["lastTurnId"], second.as_str());
    assert_eq!([&branches[0]["isCurrent"], &branches[1]["isCurrent"]], [&json!(false), &json!(true)]);

    let target = ConversationTarget::TurnId(second);
    adjust(&agent, Adjustment::SwitchConversation { target }, "done").await;
    let continued = ask(&agent, "go on", 4).await;
    assert!(continued.contains("the second thing") && continued.contains("Answer 2."), "{continued}");
    assert!(!continued.contains("the other thing"), "{continued}");
    // The first turn ended where both branches begin.
    let target = ConversationTarget::TurnId(turns(&agent)[0].clone());
    adjust(&agent, Adjustment::SwitchConversation { target }, "done").await;
    let early = ask(&agent, "again", 5).await;
    assert!(early.contains("Answer 1.") && !early.contains("the second thing"), "{early}");
}

#[tokio::test]
async fn labels_of_turns_are_reported_and_written_to_the_conversation() {
    let agent = Agent::says(says(2)).await;
    agent.gateway.sees("turn_completed").await;
    let label =
        |turn_id, label: Option<&str>| Adjustment::LabelTurn { turn_id, label: label.map(str::to_owned) };
    adjust(&agent, label(None, Some("before the rewrite")), "done").await;
    let first = turns(&agent)[0].clone();
    let expected = json!([{ "turnId": first, "label": "before the rewrite" }]);
    assert_eq!(reported(&agent)["labels"], expected);
    let conversation = reported(&agent)["branches"][0]["conversationId"].as_str().unwrap().to_owned();
    let file = format!("home/native/conversations/{conversation}.jsonl");
    let written = std::fs::read_to_string(agent.folders.root().join(file)).unwrap();
    assert!(written.contains("before the rewrite"), "{written}");

    adjust(&agent, Adjustment::NewConversation {}, "done").await;
    let refused = adjust(&agent, label(Some(first.clone()), Some("x")), "invalid").await;
    assert!(refused["message"].as_str().unwrap().contains("switch to it first"), "{refused}");
    adjust(&agent, label(None, Some("x")), "invalid").await;
    let target = ConversationTarget::TurnId(first.clone());
    adjust(&agent, Adjustment::SwitchConversation { target }, "done").await;
    adjust(&agent, label(Some(first), None), "done").await;
    assert_eq!(reported(&agent)["labels"], json!([]));
}

#[tokio::test]
async fn conversations_do_not_change_during_a_turn() {
    let agent = Agent::idle(Script::default()).await;
    let first = waiting(&agent.work(), "first");
    agent.model.play(Script::of([bash(&first), Step::text("Done.")]));
    agent.begin(|_| {});
    begun(&agent, "first").await;
    agent.gateway.sees("turn_started").await;
    for adjustment in [
        Adjustment::NewConversation {},
        Adjustment::SwitchConversation { target: ConversationTarget::TurnId(turns(&agent)[0].clone()) },
        Adjustment::LabelTurn { turn_id: None, label: Some("x".into()) },
    ] {
        let refused = adjust(&agent, adjustment, "invalid").await;
        assert!(refused["message"].as_str().unwrap().contains("between turns"), "{refused}");
    }
    let_go(&agent, "first");
    agent.gateway.sees("turn_completed").await;
}

#[tokio::test]
async fn next_run_continues_the_conversation_that_was_current() {
    let mut agent = Agent::says(says(3)).await;
    agent.gateway.sees("turn_completed").await;
    adjust(&agent, Adjustment::NewConversation {}, "done").await;
    ask(&agent, "something else", 2).await;
    agent.killed_and_resumed(Some("go on")).await;
    agent.gateway.sees("turn_completed").await;
    let last = agent.last_request()["messages"].to_string();
    assert!(last.contains("something else") && !last.contains("do the work"), "{last}");
    assert_eq!(reported(&agent)["branches"].as_array().unwrap().len(), 2, "the run reports them again");
}

#[tokio::test]
async fn all_conversations_count_for_the_allowance() {
    // 30,000 tokens cost 9 cents of the 10.
    let dear = Step::text("One.").taking(Tokens { input: 30_000, output: 10, ..Tokens::default() });
    let agent = Agent::idle(Script::of([dear, Step::text("Two.")])).await;
    agent.begin(|begin| begin.allowance_usd = Some("0.1".into()));
    agent.gateway.sees("turn_completed").await;
    adjust(&agent, Adjustment::NewConversation {}, "done").await;
    agent.gateway.send(message("something else", MessagePriority::Queued));
    let held = agent.gateway.sees("budget_exceeded").await;
    let left: f64 = agent.gateway.delivered()[held].body["leftUsd"].as_str().unwrap().parse().unwrap();
    assert!(left < 0.011, "{left}");
}
