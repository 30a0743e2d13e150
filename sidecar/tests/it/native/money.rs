//! Budget and quota (decisions 31, 32, 39).

use pilothouse_domain::value::{Adjustment, MessagePriority};
use pilothouse_model_server::{Failure, Step, Tokens};
use pilothouse_wire::Command;

use super::{Agent, bash};
use crate::sidecar::message;

fn allow(usd: &str) -> Command {
    Command::Adjust { adjustment: Adjustment::SetAllowance { allowance_usd: Some(usd.into()) } }
}

#[tokio::test]
async fn call_beyond_the_allowance_is_held_until_it_is_raised() {
    let agent = Agent::idle(pilothouse_model_server::Script::of([
        bash("touch made").taking(Tokens { input: 1000, output: 100, ..Tokens::default() }),
        Step::text("Done."),
    ]))
    .await;
    agent.begin(|begin| begin.allowance_usd = Some("0.000001".into()));
    let held = agent.gateway.sees("budget_exceeded").await;
    let held_call = agent.gateway.delivered()[held].body.clone();
    assert_eq!(held_call["leftUsd"], "0.000001", "{held_call}");
    let needed: f64 = held_call["neededUsd"].as_str().unwrap().parse().unwrap();
    assert!(needed > 0.000_001);
    assert!(agent.requests().is_empty(), "the model was not asked");

    // Too little: the agent stays held, and reports it again after another attempt.
    let little = agent.gateway.send(allow("0.000002"));
    agent.gateway.acknowledged(little, "done").await;
    agent.gateway.sees_nth("budget_exceeded", 2).await;
    assert!(agent.requests().is_empty());

    let pause = agent.gateway.send(Command::Pause {});
    agent.gateway.acknowledged(pause, "done").await;
    let more = agent.gateway.send(allow("100"));
    agent.gateway.acknowledged(more, "done").await;
    assert!(agent.requests().is_empty(), "it is paused");
    let resume = agent.gateway.send(Command::Resume {});
    agent.gateway.acknowledged(resume, "done").await;
    agent.gateway.sees("turn_completed").await;
    assert!(agent.work().join("made").exists());
    assert_eq!(agent.gateway.story().iter().filter(|line| *line == "budget_exceeded").count(), 2);
}

#[tokio::test]
async fn small_cap_shortens_replies_and_still_makes_calls() {
    let taking = |output| Tokens { input: 1_000, output, ..Tokens::default() };
    let agent = Agent::idle(pilothouse_model_server::Script::of([
        bash("touch made").taking(taking(100)),
        Step::text("Done.").taking(taking(100)),
    ]))
    .await;
    // A reply of 64,000 tokens would cost 96 cents.
    agent.begin(|begin| begin.allowance_usd = Some("0.1".into()));
    agent.gateway.sees("turn_completed").await;
    for request in agent.requests() {
        let most = request["max_tokens"].as_u64().unwrap();
        assert!((1_024..6_700).contains(&most), "{most}");
    }
    assert!(agent.work().join("made").exists());
    assert!(!agent.gateway.story().iter().any(|line| line == "budget_exceeded"));
}

#[tokio::test]
async fn earlier_spend_is_outside_the_allowance_and_totals_continue() {
    let taking = Tokens { input: 100_000, output: 1000, ..Tokens::default() };
    let mut agent = Agent::says([Step::text("One.").taking(taking), Step::text("Two.").taking(taking)]).await;
    agent.gateway.sees("turn_completed").await;
    let total = |agent: &Agent| -> f64 {
        let delivered = agent.gateway.delivered();
        let last = delivered.iter().rfind(|e| e.kind() == "usage_update").unwrap();
        last.body["costUsd"].as_str().unwrap().parse().unwrap()
    };
    let first = total(&agent);
    agent.killed_and_resumed(Some("go on")).await;
    agent.gateway.sees("turn_completed").await;
    assert!(total(&agent) > first * 1.9, "running totals continue: {first} then {}", total(&agent));
}

#[tokio::test]
async fn exhausted_quota_keeps_the_turn_open_until_resumed() {
    let agent = Agent::says([
        Step::text("Back again.").failing([Failure::QuotaExceeded { resets_in: Some(3600) }]),
        Step::text("And a message."),
    ])
    .await;
    let quota = agent.gateway.sees("quota_exceeded").await;
    let quota_event = &agent.gateway.delivered()[quota].body;
    assert!(quota_event["message"].is_string() && quota_event["resetAt"].is_string(), "{quota_event}");
    let pause = agent.gateway.send(Command::Pause {});
    agent.gateway.acknowledged(pause, "done").await;
    assert!(!agent.gateway.story().iter().any(|line| line.starts_with("turn_completed")));
    let resume = agent.gateway.send(Command::Resume {});
    agent.gateway.acknowledged(resume, "done").await;
    agent.gateway.sees("assistant_message text Back again.").await;
    agent.gateway.sees("turn_completed").await;
    agent.gateway.send(message("more", MessagePriority::Queued));
    agent.gateway.sees_nth("turn_completed", 2).await;
}
