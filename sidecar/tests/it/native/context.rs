//! The context window: one warning, then a handoff or a compaction (decision 35).

use pilothouse_domain::project_agent::SessionPolicy;
use pilothouse_domain::value::{ContextPolicy, MessagePriority};
use pilothouse_model_server::{Step, Tokens};
use serde_json::json;

use super::{Agent, bash};
use crate::sidecar::message;

/// Tokens that fill a window of 200,000 to this percentage.
fn filled(percent: u64) -> Tokens {
    Tokens { input: percent * 2000, output: 100, ..Tokens::default() }
}

#[tokio::test]
async fn full_window_warns_once_and_hands_off_with_a_document() {
    let document = "<handoff_document>\n{\"summary\": \"The hull is done.\", \"remainingWork\": \"The sails.\"}\n</handoff_document>";
    let agent = Agent::idle(pilothouse_model_server::Script::of([
        bash("true").taking(filled(82)),
        bash("true").taking(filled(84)),
        bash("true").taking(filled(95)),
        Step::text(document).taking(filled(96)),
    ]))
    .await;
    agent.begin(|begin| begin.config.options.context_policy = ContextPolicy::Handoff);
    agent.gateway.sees("session_end context_exhausted").await;
    let delivered = agent.gateway.delivered();
    let count = |kind: &str| delivered.iter().filter(|e| e.kind() == kind).count();
    assert_eq!(count("context_nearing_limit"), 1);
    let warned = delivered.iter().find(|e| e.kind() == "context_nearing_limit").unwrap();
    assert!(warned.body["usagePercent"].as_str().unwrap().starts_with("82."), "{}", warned.body);
    assert_eq!(
        (count("handoff_document"), count("context_exhausted")),
        (1, 1),
        "{:#?}",
        agent.gateway.story()
    );
    let handed = delivered.iter().find(|e| e.kind() == "handoff_document").unwrap();
    assert_eq!(handed.body["remainingWork"], "The sails.");
}

fn limits(policy: serde_json::Value) -> SessionPolicy {
    serde_json::from_value(policy).unwrap()
}

#[tokio::test]
async fn context_budget_of_the_brief_fills_the_window() {
    let agent = Agent::idle(pilothouse_model_server::Script::of([
        bash("true").taking(filled(10)),
        bash("true").taking(filled(30)),
        Step::text("<handoff_document>{\"summary\": \"a\", \"remainingWork\": \"b\"}</handoff_document>"),
    ]))
    .await;
    agent.begin(|begin| {
        begin.config.options.context_policy = ContextPolicy::Handoff;
        begin.config.policies.session_policy =
            Some(limits(json!({ "historyPolicy": "full", "contextBudgetTokens": 50_000 })));
    });
    agent.gateway.sees("session_end context_exhausted").await;
}

#[tokio::test]
async fn turn_limit_of_the_brief_ends_the_turn() {
    let steps = [bash("true"), bash("true"), Step::text("three")];
    let agent = Agent::idle(pilothouse_model_server::Script::of(steps)).await;
    agent.begin(|begin| {
        begin.config.policies.session_policy =
            Some(limits(json!({ "historyPolicy": "full", "maxTurns": 2 })));
    });
    let at = agent.gateway.sees("turn_completed").await;
    assert_eq!(agent.gateway.delivered()[at].body["outcome"], "max_iterations");
    assert_eq!(agent.requests().len(), 2);
}

#[tokio::test]
async fn model_receives_the_latest_turns_only() {
    let steps = ["one", "two", "three"].map(Step::text);
    let agent = Agent::idle(pilothouse_model_server::Script::of(steps)).await;
    agent.begin(|begin| {
        begin.config.policies.session_policy =
            Some(limits(json!({ "historyPolicy": "recent_n", "historyN": 2 })));
    });
    for (n, text) in ["the mast", "the sails"].into_iter().enumerate() {
        agent.gateway.sees_nth("turn_completed", n + 1).await;
        agent.gateway.send(message(text, MessagePriority::Queued));
    }
    agent.gateway.sees_nth("turn_completed", 3).await;
    let asked = agent.last_request()["messages"].to_string();
    assert!(asked.contains("the mast") && asked.contains("the sails"), "{asked}");
    assert!(!asked.contains("do the work"), "the first turn is left out: {asked}");
}

#[tokio::test]
async fn document_that_nobody_asked_for_is_only_text() {
    let document = "<handoff_document>{\"summary\": \"a\", \"remainingWork\": \"b\"}</handoff_document>";
    let agent =
        Agent::idle(pilothouse_model_server::Script::of([Step::text(document).taking(filled(82))])).await;
    agent.begin(|begin| begin.config.options.context_policy = ContextPolicy::Handoff);
    agent.gateway.sees("turn_completed").await;
    let delivered = agent.gateway.delivered();
    assert!(
        !delivered.iter().any(|event| event.kind() == "handoff_document"),
        "{:#?}",
        agent.gateway.story()
    );
}

#[tokio::test]
async fn first_message_contains_the_handoff_of_the_predecessor() {
    let agent = Agent::idle(pilothouse_model_server::Script::of([Step::text("I know.")])).await;
    agent.begin(|begin| {
        let handoff = json!({ "fromSessionId": "01900000-0000-7000-8000-000000000001", "position": 1,
            "summary": "The hull is done.", "remainingWork": "The sails." });
        begin.config.handoff = Some(serde_json::from_value(handoff).unwrap());
    });
    agent.gateway.sees("turn_completed").await;
    let asked = agent.last_request()["messages"].to_string();
    assert!(
        asked.contains("The hull is done.") && asked.contains("The sails.") && asked.contains("do the work")
    );
}

#[tokio::test]
async fn agent_knows_its_place_and_the_instructions_of_the_project() {
    let agent = Agent::idle(pilothouse_model_server::Script::of([Step::text("Done.")])).await;
    let work = agent.work();
    let git = |arguments: &[&str]| {
        let named = ["-c", "user.name=t", "-c", "user.email=t@localhost"];
        let done = std::process::Command::new("git").args(named).args(arguments).current_dir(&work).output();
        assert!(done.unwrap().status.success(), "git {arguments:?}");
    };
    std::fs::write(work.join("AGENTS.md"), "Speak like a pirate.").unwrap();
    git(&["init", "-q", "-b", "harbour"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "Set sail"]);
    std::fs::write(work.join("CLAUDE.md"), "Count the sails.").unwrap();
    std::fs::create_dir_all(work.join(".claude/skills/ship")).unwrap();
    let skill = "---\ndescription: Builds ships\n---\nUse oak.";
    std::fs::write(work.join(".claude/skills/ship/SKILL.md"), skill).unwrap();
    std::fs::create_dir_all(work.join(".agents/skills/anchor")).unwrap();
    let skill = "---\ndescription: Drops anchors\n---\nUse iron.";
    std::fs::write(work.join(".agents/skills/anchor/SKILL.md"), skill).unwrap();
    agent.begin(|_| {});
    agent.gateway.sees("turn_completed").await;
    let system = agent.last_request()["system"].to_string();
    for part in [
        "Today is 20",
        std::env::consts::OS,
        "harbour",
        "Set sail",
        "Speak like a pirate.",
        "Count the sails.",
        "Drops anchors",
    ] {
        assert!(system.contains(part), "{part}: {system}");
    }
    assert_eq!(system.matches("Builds ships").count(), 1, "{system}");
}
