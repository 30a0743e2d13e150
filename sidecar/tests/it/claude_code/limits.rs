//! Limits: budget, model calls of a turn, context window, refusals, provider errors (decisions 32, 34, 39).

use pilothouse_domain::value::ContextPolicy;
use pilothouse_model_server::{Failure, Script, Step, Stop, Tokens};
use pilothouse_wire::command::Begin;
use serde_json::json;

use super::{Agent, bash, begun, let_go, waiting};

fn outcome(agent: &Agent) -> serde_json::Value {
    agent.events("turn_completed").last().unwrap()["outcome"].clone()
}

/// A model call that costs 0.3 dollars.
const DEAR: Tokens = Tokens { input: 100, output: 20_000, cache_read: 0, cache_write: 0 };

fn allowance(usd: &str) -> pilothouse_wire::Command {
    let adjustment =
        pilothouse_domain::value::Adjustment::SetAllowance { allowance_usd: Some(usd.to_owned()) };
    pilothouse_wire::Command::Adjust { adjustment }
}

#[tokio::test]
async fn a_spent_allowance_holds_the_turn_until_it_is_raised() {
    let steps = [bash("echo one").taking(DEAR), bash("echo two"), Step::text("three")];
    let Some(agent) = Agent::with(steps, |begin| begin.allowance_usd = Some("0.2".into())).await else {
        return;
    };
    agent.gateway.sees("budget_exceeded").await;
    let pause = agent.gateway.send(pilothouse_wire::Command::Pause {});
    agent.gateway.acknowledged(pause, "done").await;
    assert_eq!(agent.prompts().len(), 1, "no model call after the one that reached the allowance");
    assert!(agent.events("turn_completed").is_empty());
    let raise = agent.gateway.send(allowance("5"));
    agent.gateway.acknowledged(raise, "done").await;
    assert_eq!(agent.prompts().len(), 1, "its owner has paused it");
    let resume = agent.gateway.send(pilothouse_wire::Command::Resume {});
    agent.gateway.acknowledged(resume, "done").await;
    agent.gateway.sees("turn_completed").await;
    assert_eq!(outcome(&agent), serde_json::Value::Null, "completed");
    assert_eq!((agent.prompts().len(), agent.events("turn_started").len()), (3, 1));
    let story = agent.story();
    assert!(story.iter().filter(|line| line.starts_with("result ok")).count() == 2, "{story:#?}");
}

#[tokio::test]
async fn raised_allowance_continues_an_agent_that_was_not_paused() {
    let steps = [bash("echo one").taking(DEAR), Step::text("two")];
    let Some(agent) = Agent::with(steps, |begin| begin.allowance_usd = Some("0.2".into())).await else {
        return;
    };
    agent.gateway.sees("budget_exceeded").await;
    agent.gateway.send(allowance("5"));
    agent.gateway.sees("turn_completed").await;
}

#[tokio::test]
async fn exhausted_budget_prevents_model_calls() {
    let steps = [Step::text("one")];
    let Some(agent) = Agent::with(steps, |begin| begin.allowance_usd = Some("0".into())).await else {
        return;
    };
    agent.gateway.sees("budget_exceeded").await;
    let pause = agent.gateway.send(pilothouse_wire::Command::Pause {});
    agent.gateway.acknowledged(pause, "done").await;
    assert!(agent.prompts().is_empty());
    agent.gateway.send(allowance("5"));
    agent.gateway.send(pilothouse_wire::Command::Resume {});
    agent.gateway.sees("turn_completed").await;
}

/// The cost of a model call is recorded while its tool runs, so that it counts even if the agent dies.
#[tokio::test]
async fn model_call_is_recorded_while_its_tool_runs() {
    let Some(agent) = Agent::idle(Script::default()).await else { return };
    let command = waiting(&agent.work(), "tool");
    agent.model.play(Script::of([bash(&command).taking(DEAR), Step::text("done")]));
    agent.begin(|_| {});
    begun(&agent, "tool").await;
    let cost = |_: &crate::gateway::Gateway| {
        let last = agent.events("usage_update").pop()?;
        (last["costUsd"] != "0").then(|| last["costUsd"].clone())
    };
    let known = agent.gateway.until("the cost of the call", cost).await;
    assert_eq!(known, "0.3003");
    let_go(&agent, "tool");
    agent.gateway.sees("turn_completed").await;
}

#[tokio::test]
async fn model_call_limit_ends_the_turn_as_max_iterations() {
    let steps = [bash("echo one"), bash("echo two"), Step::text("three")];
    let change = |begin: &mut pilothouse_wire::command::Begin| {
        begin.config.adapter_options = json!({ "maxTurns": 1 });
    };
    let Some(agent) = Agent::with(steps, change).await else { return };
    agent.gateway.sees("turn_completed").await;
    assert_eq!(outcome(&agent), "max_iterations");
}

#[tokio::test]
async fn overloaded_provider_is_retried() {
    let steps = [Step::text("at last").failing([Failure::Overloaded, Failure::ServerError])];
    let Some(agent) = Agent::says(steps).await else { return };
    agent.gateway.sees("turn_completed").await;
    assert_eq!(agent.events("notice").iter().filter(|notice| notice["name"] == "api_retry").count(), 2);
}

#[tokio::test]
async fn exhausted_plan_keeps_its_reset_time_over_retries() {
    let used_up = || Failure::QuotaExceeded { resets_in: Some(3600) };
    let steps = [bash("echo one"), Step::text("two").failing([used_up(), used_up()])];
    let Some(agent) = Agent::on_a_plan(steps).await else { return };
    let begun = i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_secs()).unwrap();
    for time in 1..=2 {
        agent.gateway.sees_nth("quota_exceeded", time).await;
        let pause = agent.gateway.send(pilothouse_wire::Command::Pause {});
        agent.gateway.acknowledged(pause, "done").await;
        assert!(agent.events("turn_completed").is_empty() && agent.events("session_end").is_empty());
        let resume = agent.gateway.send(pilothouse_wire::Command::Resume {});
        agent.gateway.acknowledged(resume, "done").await;
    }
    agent.gateway.sees("assistant_message text two").await;
    agent.gateway.sees("turn_completed").await;
    assert_eq!(agent.events("turn_started").len(), 1);
    for event in agent.events("quota_exceeded") {
        let reset: pilothouse_domain::Timestamp = serde_json::from_value(event["resetAt"].clone()).unwrap();
        assert!((begun + 3500..begun + 4000).contains(&reset.as_secs()), "{event}");
        assert!(event["message"].as_str().unwrap().contains("session limit"), "{event}");
    }
}

#[tokio::test]
async fn temporary_rate_limit_is_not_an_exhausted_plan() {
    let limited = Failure::RateLimited { retry_after: Some(3600), retry_after_date: None };
    let Some(agent) = Agent::on_a_plan([Step::text("never").failing([limited])]).await else { return };
    let lost = agent.gateway.until("it", |_| agent.events("model_unavailable").pop()).await;
    assert!(lost["retryAt"].is_string(), "{lost}");
    assert!(agent.events("quota_exceeded").is_empty() && agent.events("session_end").is_empty());
}

#[tokio::test]
async fn refused_key_ends_the_conversation_in_an_error() {
    let refused = Failure::Status { status: 403, body: None, headers: std::collections::BTreeMap::new() };
    let Some(agent) = Agent::says([Step::text("never").failing([refused])]).await else { return };
    agent.gateway.until("an end", |_| agent.events("session_end").pop()).await;
    assert_eq!(agent.events("session_end")[0]["isError"], true, "a success with an error flag is an error");
    assert!(agent.events("turn_completed").is_empty());
}

#[tokio::test]
async fn refusal_ends_the_turn_or_conversation_and_never_hangs() {
    let steps = [Step { stop: Some(Stop::Refusal), ..Step::text("I will not") }];
    let Some(agent) = Agent::says(steps).await else { return };
    let ended = |_: &crate::gateway::Gateway| {
        agent.events("session_end").pop().or_else(|| agent.events("turn_completed").pop())
    };
    agent.gateway.until("an end", ended).await;
}

const DOCUMENT: &str = "<handoff_document>{\"summary\": \"Did a.\", \"remainingWork\": \"Do b.\", \
                        \"keyDecisions\": \"c\"}</handoff_document>";

/// Tokens of a window of 200,000.
fn filled(input: u64) -> Tokens {
    Tokens { input, output: 10, ..Tokens::default() }
}

#[tokio::test]
async fn warning_alone_hands_nothing_over() {
    let steps = [bash("echo one").taking(filled(165_000)), Step::text(DOCUMENT)];
    let Some(agent) = Agent::says(steps).await else { return };
    agent.gateway.sees("turn_completed").await;
    assert_eq!(agent.events("context_nearing_limit").len(), 1);
    assert!(agent.events("context_exhausted").is_empty() && agent.events("handoff_document").is_empty());
    assert!(!agent.prompts()[1].to_string().contains("Your context window is"), "it was not asked");
}

#[tokio::test]
async fn document_under_the_compact_policy_is_only_text() {
    let steps = [bash("echo one").taking(filled(173_000)), Step::text(DOCUMENT)];
    let compact = |begin: &mut Begin| begin.config.options.context_policy = ContextPolicy::Compact;
    let Some(agent) = Agent::with(steps, compact).await else { return };
    agent.gateway.sees("turn_completed").await;
    assert!(agent.events("context_exhausted").is_empty() && agent.events("handoff_document").is_empty());
}

#[tokio::test]
async fn nearly_full_window_produces_the_handoff_document() {
    let steps = [bash("echo one").taking(filled(173_000)), Step::text(DOCUMENT)];
    let Some(agent) = Agent::says(steps).await else { return };
    agent.gateway.sees("session_end context_exhausted").await;
    let story = agent.story();
    let at = |what: &str| {
        story.iter().position(|line| line.starts_with(what)).unwrap_or_else(|| panic!("{what} {story:#?}"))
    };
    assert!(at("context_nearing_limit") < at("context_exhausted"));
    assert!(at("context_exhausted") < at("handoff_document") && at("handoff_document") < at("session_end"));
    let document = &agent.events("handoff_document")[0];
    assert_eq!((&document["summary"], &document["remainingWork"]), (&json!("Did a."), &json!("Do b.")));
    assert!(agent.prompts()[1].to_string().contains("handoff document"), "it was asked for it");
    assert_eq!(agent.events("session_end")[0]["isError"], false);
}
