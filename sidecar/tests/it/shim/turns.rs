//! Turns, decisions, pauses and interrupts of a shim that behaves.

use std::path::PathBuf;

use nix::sys::signal::Signal;
use pilothouse_domain::value::{Adjustment, Answer, DraftKind, MessagePriority};
use pilothouse_wire::Command;
use serde_json::{Value, json};

use super::{Harness, approval, begin, completed, said};
use crate::gateway::{Gateway, PNG};
use crate::liveness::outage_with_a_pause;
use crate::sidecar::{Folders, delegating_to, message, message_with};
use crate::verdicts::Verdict;

const PAUSES: &str = r#"{"supportsPause": true, "supportsResume": true}"#;

fn pauses() -> Value {
    serde_json::from_str(PAUSES).unwrap()
}

#[tokio::test]
async fn events_of_a_turn_are_translated_in_order() {
    let call = |phase: &str| {
        json!({ "emit": { "type": "tool_call", "toolCallId": "c1", "toolName": "shell", "phase": phase,
            "input": { "command": "ls" }, "output": "files", "approved": true } })
    };
    let child = |action: &str| {
        json!({ "emit": { "type": "delegation", "action": action, "childAgentId": "sub", "childRole": "helper",
            "reason": "look", "delegationDepth": 1, "rootAgentId": "a" } })
    };
    let harness = Harness::playing(json!({ "turn": [
        said("working"), call("requested"), call("running"), call("completed"), child("spawned"), child("returned"),
        { "emit": { "type": "progress", "operationId": "o", "description": "half", "progressPct": 50 } },
        completed(),
    ] }))
    .await;
    harness.gateway.sees("turn_completed").await;
    let mut story = harness.gateway.story();
    // The output of the process arrives at any time.
    story.retain(|event| !event.starts_with("log_chunk"));
    let from = story.iter().position(|event| event.starts_with("turn_started")).unwrap();
    let translated = [
        "assistant_message text working",
        "assistant_message tool shell",
        "tool_result",
        "subagent_started",
        "subagent_ended",
        "turn_completed",
    ];
    for (event, expected) in story[from + 1..].iter().zip(translated) {
        assert!(event.starts_with(expected), "{expected}: {story:#?}");
    }
    let logged = harness.gateway.delivered();
    assert!(
        logged
            .iter()
            .any(|event| event.body["stream"] == "progress" && event.body["content"] == "half 50 %\n")
    );
}

#[tokio::test]
async fn event_of_a_shim_has_the_time_of_its_emission() {
    let harness = Harness::playing(json!({ "turn": [said("one"), completed()] })).await;
    for (short, expected) in [
        ("turn_started", None),
        ("assistant_message text one", Some("2026-01-01T00:00:00.000Z")),
        ("turn_completed", Some("2026-01-01T00:00:00.000Z")),
    ] {
        let at = harness.gateway.sees(short).await;
        let time = harness.gateway.delivered()[at].occurred_at.map(|time| time.to_string());
        assert_eq!(time.as_deref(), expected, "{short}");
    }
}

/// A piece of a draft. Its end is no part of a secret, so that it is shown at once.
fn piece(kind: &str, text: &str, restart: bool) -> Value {
    let piece = json!({ "type": "draft", "kind": kind, "text": text, "restart": restart });
    json!({ "raw": piece.to_string() })
}

#[tokio::test]
async fn draft_of_a_shim_is_shown_before_its_text_is_complete() {
    let harness = Harness::empty().await;
    harness.gateway.follow();
    let script = json!({ "turn": [
        piece("thinking", "Tea?", true), { "hear": true },
        piece("text", "The coffee.", true), piece("text", "The tea", true), piece("text", "pot.", false), { "hear": true },
        said("The teapot."), completed(),
    ] });
    harness.begin(begin(&script, Some("do it"), false));
    harness.gateway.shows_draft(DraftKind::Thinking, "Tea?").await;
    harness.gateway.send(message("yes", MessagePriority::Immediate));
    harness.gateway.shows_draft(DraftKind::Text, "The teapot.").await;
    let story = harness.gateway.story();
    assert!(!story.iter().any(|event| event.contains("teapot")), "nothing is recorded yet: {story:#?}");
    harness.gateway.send(message("go on", MessagePriority::Immediate));
    harness.gateway.sees("assistant_message text The teapot.").await;
    harness.gateway.sees("turn_completed").await;
    let story = harness.gateway.story();
    assert!(!story.iter().any(|event| event.starts_with("notice event_")), "no event is missing: {story:#?}");
}

/// The missing event is replayed within the text. The one that waited for it completes the text before.
#[tokio::test]
async fn text_that_begins_while_events_are_missing_is_not_shown() {
    let harness = Harness::empty().await;
    harness.gateway.follow();
    let missed = json!({ "skip": { "type": "status", "message": "missed" } });
    let script = json!({ "turn": [
        said("one"), missed, said("two"), piece("text", "The tea", true), { "replayed": true },
        piece("text", "pot.", false), { "hear": true },
        piece("text", "The coffee.", true), { "hear": true }, completed(),
    ] });
    harness.begin(begin(&script, Some("do it"), false));
    harness.gateway.sees("assistant_message text two").await;
    harness.gateway.time_passes().await;
    harness.gateway.send(message("yes", MessagePriority::Immediate));
    harness.gateway.shows_draft(DraftKind::Text, "The coffee.").await;
    let begun = harness.gateway.begun_drafts();
    assert!(begun.iter().all(|text| text == "The coffee."), "no half text: {begun:?}");
    harness.gateway.send(message("go on", MessagePriority::Immediate));
    harness.gateway.sees("turn_completed").await;
}

#[tokio::test]
async fn shim_gets_a_note_about_the_images_of_a_message() {
    let harness = Harness::playing(json!({ "turn": [said("first"), { "hear": true }, completed()] })).await;
    harness.gateway.sees("assistant_message text first").await;
    let shown = harness.gateway.image(PNG);
    let id = harness.gateway.send(message_with("look", vec![shown], MessagePriority::Immediate));
    harness.gateway.acknowledged(id, "injected").await;
    let notice = harness.event("notice images_left_out").await;
    assert!(notice["summary"].as_str().unwrap().ends_with("a shim receives texts only"), "{notice}");
    let at = harness.gateway.sees("assistant_message text heard").await;
    let heard = harness.gateway.delivered()[at].body["content"]["text"].to_string();
    assert!(heard.contains("look") && heard.contains("You cannot receive it."), "{heard}");
    harness.gateway.sees("turn_completed").await;
}

#[tokio::test]
async fn shim_that_delegates_against_its_brief_is_ended() {
    let delegation = |action: &str, role: &str, depth: u32| {
        json!({ "emit": { "type": "delegation", "action": action, "childAgentId": "c1", "childRole": role,
            "reason": "look", "delegationDepth": depth, "rootAgentId": "a" } })
    };
    for (action, role, depth, denied) in [
        ("spawned", "painter", 1, "This agent may delegate only to: reviewer."),
        ("handoff", "painter", 1, "This agent may delegate only to: reviewer."),
        ("spawned", "reviewer", 2, "Subagents of this agent may be nested 1 deep, and no deeper."),
    ] {
        let harness = Harness::empty().await;
        let script = json!({ "turn": [delegation(action, role, depth), { "hear": true }, completed()] });
        let mut begin = begin(&script, Some("do it"), false);
        begin.config.policies = delegating_to("reviewer");
        harness.begin(begin);
        let end = harness.event("session_end").await;
        assert_eq!([&end["isError"], &end["reason"]], [&json!(true), &json!("delegation_denied")]);
        assert!(end["message"].as_str().unwrap().ends_with(denied), "{end}");
    }
    let harness = Harness::empty().await;
    let allowed = json!({ "turn": [delegation("spawned", "reviewer", 1), delegation("returned", "reviewer", 1), completed()] });
    let mut begin = begin(&allowed, Some("do it"), false);
    begin.config.policies = delegating_to("reviewer");
    harness.begin(begin);
    harness.gateway.sees("turn_completed").await;
}

#[tokio::test]
async fn owner_decides_on_a_tool_call() {
    for (answer, input, resolution) in [
        ("Allow", None, json!("approve")),
        ("Allow", Some(json!({ "command": "ls" })), json!("modify")),
        ("use git", None, json!("reject")),
    ] {
        let harness = Harness::playing(json!({ "turn": [approval(), { "hear": true }, completed()] })).await;
        let at = harness.gateway.sees("question_asked").await;
        let asked = harness.gateway.delivered().swap_remove(at);
        assert_eq!(asked.body["approval"]["toolName"], "shell");
        let id = harness.gateway.decide(&asked, answer, input);
        harness.gateway.acknowledged(id, "done").await;
        let heard = harness.event("assistant_message text").await["content"]["text"].clone();
        assert!(heard.as_str().unwrap().contains(&format!("\"resolutionType\":{resolution}")), "{heard}");
    }
}

#[tokio::test]
async fn allowed_tool_needs_no_owner_outside_a_project() {
    let harness = Harness::empty().await;
    let script = json!({ "turn": [approval(), { "hear": true }, completed()] });
    let mut begin = begin(&script, Some("do it"), false);
    begin.config.allowed_tools = vec!["Shell".into()];
    harness.begin(begin);
    harness.gateway.sees("turn_completed").await;
    assert!(harness.gateway.story().iter().all(|event| event != "question_asked"));
}

#[tokio::test]
async fn control_plane_authorizes_a_call_in_a_project() {
    for (verdict, resolution) in [(Verdict::Allow, "approve"), (Verdict::Deny("Not on Fridays."), "reject")] {
        let mut risky = approval();
        risky["emit"]["severity"] = json!("high");
        risky["emit"]["blastRadius"] = json!("large");
        let harness =
            Harness::governed([verdict], json!({ "turn": [risky, { "hear": true }, completed()] })).await;
        let heard = harness.event("assistant_message text").await["content"]["text"].to_string();
        assert!(heard.contains(resolution), "{heard}");
        let asked = harness.gateway.authorizations().remove(0);
        assert_eq!([&asked["toolCallId"], &asked["tool"]], [&json!("c1"), &json!("shell")]);
        assert_eq!(asked["arguments"], json!({ "command": "touch x" }));
        let reported = &asked["reported"];
        assert_eq!(
            [&reported["severity"], &reported["blastRadius"]],
            [&json!("high"), &json!("large")],
            "the risk that the agent reports: {asked}"
        );
    }
    let risk = json!({ "severity": "high", "blastRadius": "large", "confidence": 0.25 });
    let mut risky = approval();
    risky["emit"].as_object_mut().unwrap().extend(risk.as_object().unwrap().clone());
    let harness =
        Harness::governed([Verdict::Ask], json!({ "turn": [risky, { "hear": true }, completed()] })).await;
    let asked = harness.gateway.asks_for_permission(1).await;
    assert_eq!(harness.gateway.authorizations()[0]["reported"], risk);
    let id = harness.gateway.decide(&asked, "Allow", Some(json!({ "command": "ls" })));
    harness.gateway.acknowledged(id, "done").await;
    let heard = harness.event("assistant_message text").await["content"]["text"].to_string();
    assert!(heard.contains("modify") && heard.contains("ls"), "{heard}");
}

#[tokio::test]
async fn owner_chooses_an_option_with_a_reason() {
    let option =
        |id: &str, label: &str| json!({ "id": id, "label": label, "description": "d", "tradeoffs": "t" });
    let proposal = json!({
        "options": [option("a", "Red"), option("b", "Blue")], "recommendedOptionId": "b", "confidence": 0.5,
        "severity": "high", "blastRadius": "small", "affectedArtifactIds": ["x"], "requiresRationale": true,
    });
    let mut decision = json!({ "type": "decision", "subtype": "option", "decisionId": "d1", "title": "Which?",
        "summary": "s", "dueByTick": 5 });
    decision.as_object_mut().unwrap().extend(proposal.as_object().unwrap().clone());
    let harness =
        Harness::playing(json!({ "turn": [{ "emit": decision }, { "hear": true }, completed()] })).await;
    let asked = harness.event("question_asked").await;
    assert_eq!((&asked["requestId"], &asked["proposal"]), (&json!("d1"), &proposal));
    assert_eq!(asked["questions"][0]["question"], "Which?\ns");
    assert!(!asked.to_string().contains("dueByTick"), "agents set no due time: {asked}");
    let answers = vec![Answer { question: "Which?\ns".into(), answer: "Blue: calmer".into() }];
    let request_id = "d1".parse().unwrap();
    let id = harness.gateway.send(Command::Answer { request_id, answers, modified_input: None });
    harness.gateway.acknowledged(id, "done").await;
    let heard = harness.event("assistant_message text").await["content"]["text"].to_string();
    assert!(heard.contains("chosenOptionId\\\":\\\"b") && heard.contains("calmer"), "{heard}");
}

#[tokio::test]
async fn message_is_injected_into_the_turn_or_begins_the_next() {
    let harness = Harness::playing(
        json!({ "turn": [said("first"), { "hear": true }, { "checkpoint": true }, completed()] }),
    )
    .await;
    harness.gateway.sees("assistant_message text first").await;
    harness.gateway.send(message("look here", MessagePriority::Immediate));
    harness.gateway.sees("assistant_message text heard \"look here\"").await;
    harness.gateway.sees("turn_completed").await;
    harness.gateway.send(message("and now this", MessagePriority::Queued));
    harness.gateway.sees("assistant_message text resumed at 7 with \"and now this\"").await;
    harness.gateway.sees_nth("turn_completed", 2).await;
    assert_eq!(harness.starts(), 1, "the same process");
}

#[tokio::test]
async fn pause_keeps_the_state_and_nothing_follows_it() {
    for plugin in [pauses(), json!({})] {
        let steps: Vec<_> = (0..400).map(|n| said(&format!("line {n}"))).collect();
        let mut turn = vec![said("begun"), json!({ "hear": true })];
        turn.extend(steps);
        turn.push(completed());
        let harness = Harness::playing(json!({ "plugin": plugin, "turn": turn })).await;
        harness.gateway.sees("assistant_message text begun").await;
        harness.gateway.send(message("go", MessagePriority::Immediate));
        let pause = harness.gateway.send(Command::Pause {});
        harness.gateway.acknowledged(pause, "done").await;
        let before = harness.gateway.story().iter().filter(|event| event.starts_with("assistant")).count();
        let kept = harness.folders.root().join("home/shim/checkpoint-1.json").exists();
        assert_eq!(kept, plugin["supportsPause"] == true);
        // A round trip through the sidecar, after which a late event would have arrived.
        let again = harness
            .gateway
            .send(Command::Adjust { adjustment: Adjustment::SetAllowance { allowance_usd: None } });
        harness.gateway.acknowledged(again, "done").await;
        let after = harness.gateway.story().iter().filter(|event| event.starts_with("assistant")).count();
        assert_eq!(before, after);
        let resume = harness.gateway.send(Command::Resume {});
        harness.gateway.acknowledged(resume, "done").await;
        harness.gateway.sees("assistant_message text line 399").await;
        harness.gateway.sees("turn_completed").await;
    }
}

#[tokio::test]
async fn answer_during_a_pause_reaches_the_agent_after_it() {
    let harness =
        Harness::playing(json!({ "plugin": pauses(), "turn": [approval(), { "hear": true }, completed()] }))
            .await;
    let at = harness.gateway.sees("question_asked").await;
    let asked = harness.gateway.delivered().swap_remove(at);
    let pause = harness.gateway.send(Command::Pause {});
    harness.gateway.acknowledged(pause, "done").await;
    let answer = harness.gateway.decide(&asked, "Allow", None);
    harness.gateway.acknowledged(answer, "done").await;
    assert!(!harness.gateway.story().iter().any(|event| event.contains("heard")));
    harness.gateway.send(Command::Resume {});
    harness.gateway.sees("turn_completed").await;
}

#[tokio::test]
async fn interrupt_ends_the_turn_and_keeps_the_conversation() {
    let harness = Harness::playing(json!({ "turn": [said("begun"), approval(), { "forever": true }] })).await;
    harness.gateway.sees("question_asked").await;
    let interrupt = harness.gateway.send(Command::Interrupt {});
    harness.gateway.acknowledged(interrupt, "done").await;
    assert!(!harness.gateway.story().iter().any(|event| event.starts_with("turn_completed")));
    harness.gateway.send(message("next", MessagePriority::Queued));
    harness.gateway.sees("assistant_message text resumed at 7 with \"next\"").await;
    assert_eq!(harness.starts(), 2, "no process of the interrupted turn is left");
}

#[tokio::test]
async fn run_after_a_kill_resumes_from_the_last_checkpoint() {
    let script = json!({ "turn": [{ "checkpoint": true }, said("begun"), { "forever": true }] });
    let harness = Harness::playing(script.clone()).await;
    harness.gateway.sees("assistant_message text begun").await;
    let harness = harness.next_run().await;
    harness.begin(begin(&script, Some("go on"), true));
    harness.gateway.sees("assistant_message text resumed at 7 with \"go on\"").await;
    harness.gateway.sees("turn_completed").await;
}

#[tokio::test]
async fn agent_without_a_checkpoint_gets_a_summary() {
    let script = json!({ "turn": [said("begun"), completed()] });
    let harness = Harness::playing(script).await;
    harness.gateway.sees("turn_completed").await;
    harness.gateway.send(message("next", MessagePriority::Queued));
    harness.gateway.sees("notice conversation_lost").await;
    harness.gateway.sees_nth("turn_completed", 2).await;
    assert_eq!(harness.starts(), 2);
}

#[tokio::test]
async fn unmetered_agent_waits_for_permission() {
    let harness = Harness::empty().await;
    let script = json!({ "turn": [said("begun"), completed()] });
    let mut begin = begin(&script, Some("do it"), false);
    begin.allow_unmetered = false;
    harness.begin(begin);
    harness.gateway.sees("turn_started").await;
    let pause = harness.gateway.send(Command::Pause {});
    harness.gateway.acknowledged(pause, "done").await;
    assert!(!harness.gateway.story().contains(&"assistant_message text begun".to_owned()));
    harness.gateway.send(Command::Resume {});
    harness.gateway.sees("turn_completed").await;
}

/// The server is away before its pause arrives, so the sidecar pauses and resumes the agent on its own.
#[tokio::test]
async fn end_of_an_outage_is_no_permission_for_unmetered_work() {
    let gateway = Gateway::start().await;
    let folders = Folders::of_adapter(&gateway, "shim");
    let mut launch = folders.launch(&gateway);
    launch.offline.unpriced_seconds = 0.1;
    folders.write_launch(&launch);
    let sidecar = folders.start();
    let harness = Harness { gateway, folders, sidecar };
    let mut begin = begin(&json!({ "turn": [said("begun"), completed()] }), Some("do it"), false);
    begin.allow_unmetered = false;
    harness.begin(begin);
    harness.gateway.sees("turn_started").await;
    outage_with_a_pause(&harness.gateway, &harness.folders).await;
    let story = harness.gateway.story();
    assert!(!story.contains(&"assistant_message text begun".to_owned()), "{story:#?}");
    let resume = harness.gateway.send(Command::Resume {});
    harness.gateway.acknowledged(resume, "done").await;
    harness.gateway.sees("turn_completed").await;
}

#[tokio::test]
async fn reported_usage_is_priced_and_stops_at_the_allowance() {
    let usage = json!({ "emit": { "type": "raw_provider", "providerName": "fake", "eventType": "usage",
        "payload": { "modelId": "m", "inputTokens": 10, "outputTokens": 2, "costUsd": 0.5 } } });
    let script = json!({ "turn": [usage, said("one"), usage, { "hear": true }, completed()] });
    let harness = Harness::empty().await;
    let mut begin = begin(&script, Some("do it"), false);
    begin.allowance_usd = Some("1".into());
    harness.begin(begin);
    harness.gateway.sees("budget_exceeded").await;
    let events = harness.gateway.delivered();
    let spent: Vec<_> =
        events.iter().filter(|it| it.kind() == "usage_update").map(|it| it.body["costUsd"].clone()).collect();
    assert_eq!(spent, [json!("0.5"), json!("1")]);
}

/// The folders in `/proc` of the processes of the shim, and their environments. A process that has ended has none.
fn shim_processes(harness: &Harness) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let path = process.path();
        let Ok(environment) = std::fs::read(path.join("environ")) else { continue };
        let environment = String::from_utf8_lossy(&environment).into_owned();
        let here =
            std::fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd.starts_with(harness.folders.root()));
        if here && environment.contains("FAKE_SHIM=") {
            found.push((path, environment));
        }
    }
    found
}

#[tokio::test]
async fn shim_gets_no_key_of_the_run() {
    let harness = Harness::playing(json!({ "turn": [said("begun"), { "forever": true }] })).await;
    harness.gateway.sees("assistant_message text begun").await;
    let token = harness.gateway.secret.gateway_token(harness.gateway.session, harness.gateway.run);
    let processes = shim_processes(&harness);
    assert!(!processes.is_empty());
    for (path, environment) in processes {
        let line = std::fs::read_to_string(path.join("cmdline")).unwrap();
        for secret in [token.as_str(), "ph_the_key_of_the_session"] {
            assert!(!environment.contains(secret) && !line.contains(secret));
        }
    }
    assert!(
        harness
            .folders
            .root()
            .join("home/agent")
            .read_dir()
            .unwrap()
            .flatten()
            .all(|file| { !file.file_name().to_string_lossy().starts_with("bootstrap") })
    );
}

/// The end without grace (S2): no request to the shim, which has no time to answer.
#[tokio::test]
async fn killed_sidecar_leaves_no_process_of_its_shim() {
    let harness = Harness::playing(json!({ "turn": [said("begun"), { "forever": true }] })).await;
    harness.gateway.sees("assistant_message text begun").await;
    assert!(!shim_processes(&harness).is_empty());
    harness.sidecar.signal(Signal::SIGKILL);
    let ended = |_: &Gateway| shim_processes(&harness).is_empty().then_some(());
    harness.gateway.until("the end of the shim", ended).await;
}
