//! Limits: budget, model calls of a turn, the context window, refusals, failures of the provider (rulings 32, 34, 39).

use pilothouse_domain::value::MessagePriority;
use pilothouse_model_server::{Failure, Step, Stop, Tokens};
use serde_json::json;

use super::{Agent, bash};
use crate::sidecar::message;

fn outcome(agent: &Agent) -> serde_json::Value {
    agent.events("turn_completed").last().unwrap()["outcome"].clone()
}

#[tokio::test]
async fn what_passes_the_allowance_ends_the_turn_for_its_budget_and_a_message_goes_on() {
    let dear = Tokens { input: 100, output: 20_000, ..Tokens::default() };
    let steps = [bash("echo one").taking(dear), Step::text("two").taking(dear), Step::text("three")];
    let Some(agent) = Agent::with(steps, |begin| begin.allowance_usd = Some("0.2".into())).await else {
        return;
    };
    agent.gateway.sees("turn_completed").await;
    assert_eq!(outcome(&agent), "budget_exceeded");
    assert!(agent.events("session_end").is_empty());
    // The control plane sends it only when its owner has raised the cap.
    agent.gateway.send(message("go on", MessagePriority::Queued));
    agent.gateway.sees_nth("turn_completed", 2).await;
    assert_eq!(outcome(&agent), serde_json::Value::Null, "completed");
}

#[tokio::test]
async fn the_most_model_calls_of_a_turn_end_it_as_max_iterations() {
    let steps = [bash("echo one"), bash("echo two"), Step::text("three")];
    let change = |begin: &mut pilothouse_wire::command::Begin| {
        begin.config.adapter_options = json!({ "maxTurns": 1 });
    };
    let Some(agent) = Agent::with(steps, change).await else { return };
    agent.gateway.sees("turn_completed").await;
    assert_eq!(outcome(&agent), "max_iterations");
}

#[tokio::test]
async fn an_overloaded_provider_is_asked_again() {
    let steps = [Step::text("at last").failing([Failure::Overloaded, Failure::ServerError])];
    let Some(agent) = Agent::says(steps).await else { return };
    agent.gateway.sees("turn_completed").await;
    assert_eq!(agent.events("notice").iter().filter(|notice| notice["name"] == "api_retry").count(), 2);
}

#[tokio::test]
async fn a_used_up_plan_holds_the_turn_with_the_time_of_its_reset_however_often_it_is_tried() {
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
    for told in agent.events("quota_exceeded") {
        let reset: pilothouse_domain::Timestamp = serde_json::from_value(told["resetAt"].clone()).unwrap();
        assert!((begun + 3500..begun + 4000).contains(&reset.as_secs()), "{told}");
        assert!(told["message"].as_str().unwrap().contains("session limit"), "{told}");
    }
}

#[tokio::test]
async fn a_provider_that_limits_for_a_moment_is_no_used_up_plan() {
    let limited = Failure::RateLimited { retry_after: Some(3600), retry_after_date: None };
    let Some(agent) = Agent::on_a_plan([Step::text("never").failing([limited])]).await else { return };
    agent.gateway.until("an end", |_| agent.events("session_end").pop()).await;
    assert!(agent.events("quota_exceeded").is_empty());
}

#[tokio::test]
async fn a_key_that_is_refused_ends_the_conversation_in_an_error() {
    let refused = Failure::Status { status: 403, body: None, headers: std::collections::BTreeMap::new() };
    let Some(agent) = Agent::says([Step::text("never").failing([refused])]).await else { return };
    agent.gateway.until("an end", |_| agent.events("session_end").pop()).await;
    assert_eq!(agent.events("session_end")[0]["isError"], true, "a success with an error flag is an error");
    assert!(agent.events("turn_completed").is_empty());
}

#[tokio::test]
async fn a_refusal_ends_the_turn_or_the_conversation_but_never_hangs() {
    let steps = [Step { stop: Some(Stop::Refusal), ..Step::text("I will not") }];
    let Some(agent) = Agent::says(steps).await else { return };
    let ended = |_: &crate::gateway::Gateway| {
        agent.events("session_end").pop().or_else(|| agent.events("turn_completed").pop())
    };
    agent.gateway.until("an end", ended).await;
}

#[tokio::test]
async fn a_nearly_full_window_brings_the_handoff_document_before_the_end() {
    let nearly = Tokens { input: 165_000, output: 10, ..Tokens::default() };
    let document = "<handoff_document>{\"summary\": \"Did a.\", \"remainingWork\": \"Do b.\", \
                    \"keyDecisions\": \"c\"}</handoff_document>";
    let steps = [bash("echo one").taking(nearly), Step::text(document)];
    let Some(agent) = Agent::says(steps).await else { return };
    agent.gateway.sees("session_end context_exhausted").await;
    let story = agent.story();
    let at = |what: &str| {
        story.iter().position(|line| line.starts_with(what)).unwrap_or_else(|| panic!("{what} {story:#?}"))
    };
    assert!(at("context_nearing_limit") < at("context_exhausted"));
    assert!(at("context_exhausted") < at("handoff_document") && at("handoff_document") < at("session_end"));
    let told = &agent.events("handoff_document")[0];
    assert_eq!((&told["summary"], &told["remainingWork"]), (&json!("Did a."), &json!("Do b.")));
    assert!(agent.prompts()[1].to_string().contains("handoff document"), "it was asked for it");
    assert_eq!(agent.events("session_end")[0]["isError"], false);
}
