//! Turns, decisions, pauses and interrupts of a shim that behaves.

use std::path::PathBuf;

use nix::sys::signal::Signal;
use pilothouse_domain::value::{Adjustment, Answer, DraftKind, MessagePriority};
use pilothouse_wire::Command;
use serde_json::{Value, json};

use super::{Stage, approval, begin, completed, said};
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
    let stage = Stage::playing(json!({ "turn": [
        said("working"), call("requested"), call("running"), call("completed"), child("spawned"), child("returned"),
        { "emit": { "type": "progress", "operationId": "o", "description": "half", "progressPct": 50 } },
        completed(),
    ] }))
    .await;
    stage.gateway.sees("turn_completed").await;
    let mut story = stage.gateway.story();
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
    let logged = stage.gateway.delivered();
    assert!(
        logged
            .iter()
            .any(|event| event.body["stream"] == "progress" && event.body["content"] == "half 50 %\n")
    );
}

#[tokio::test]
async fn event_of_a_shim_has_the_time_of_its_emission() {
    let stage = Stage::playing(json!({ "turn": [said("one"), completed()] })).await;
    for (short, expected) in [
        ("turn_started", None),
        ("assistant_message text one", Some("2026-01-01T00:00:00.000Z")),
        ("turn_completed", Some("2026-01-01T00:00:00.000Z")),
    ] {
        let at = stage.gateway.sees(short).await;
        let time = stage.gateway.delivered()[at].occurred_at.map(|time| time.to_string());
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
    let stage = Stage::empty().await;
    stage.gateway.follow();
    let script = json!({ "turn": [
        piece("thinking", "Tea?", true), { "hear": true },
        piece("text", "The coffee.", true), piece("text", "The tea", true), piece("text", "pot.", false), { "hear": true },
        said("The teapot."), completed(),
    ] });
    stage.begin(begin(&script, Some("do it"), false));
    stage.gateway.shows_draft(DraftKind::Thinking, "Tea?").await;
    stage.gateway.send(message("yes", MessagePriority::Immediate));
    stage.gateway.shows_draft(DraftKind::Text, "The teapot.").await;
    let story = stage.gateway.story();
    assert!(!story.iter().any(|event| event.contains("teapot")), "nothing is recorded yet: {story:#?}");
    stage.gateway.send(message("go on", MessagePriority::Immediate));
    stage.gateway.sees("assistant_message text The teapot.").await;
    stage.gateway.sees("turn_completed").await;
    let story = stage.gateway.story();
    assert!(!story.iter().any(|event| event.starts_with("notice event_")), "no event is missing: {story:#?}");
}

/// The missing event is replayed within the text. The one that waited for it completes the text before.
#[tokio::test]
async fn text_that_begins_while_events_are_missing_is_not_shown() {
    let stage = Stage::empty().await;
    stage.gateway.follow();
    let missed = json!({ "skip": { "type": "status", "message": "missed" } });
    let script = json!({ "turn": [
        said("one"), missed, said("two"), piece("text", "The tea", true), { "replayed": true },
        piece("text", "pot.", false), { "hear": true },
        piece("text", "The coffee.", true), { "hear": true }, completed(),
    ] });
    stage.begin(begin(&script, Some("do it"), false));
    stage.gateway.sees("assistant_message text two").await;
    stage.gateway.time_passes().await;
    stage.gateway.send(message("yes", MessagePriority::Immediate));
    stage.gateway.shows_draft(DraftKind::Text, "The coffee.").await;
    let begun = stage.gateway.begun_drafts();
    assert!(begun.iter().all(|text| text == "The coffee."), "no half text: {begun:?}");
    stage.gateway.send(message("go on", MessagePriority::Immediate));
    stage.gateway.sees("turn_completed").await;
}

#[tokio::test]
async fn shim_gets_a_note_about_the_images_of_a_message() {
    let stage = Stage::playing(json!({ "turn": [said("first"), { "hear": true }, completed()] })).await;
    stage.gateway.sees("assistant_message text first").await;
    let shown = stage.gateway.image(PNG);
    let id = stage.gateway.send(message_with("look", vec![shown], MessagePriority::Immediate));
    stage.gateway.acknowledged(id, "injected").await;
    let notice = stage.event("notice images_left_out").await;
    assert!(notice["summary"].as_str().unwrap().ends_with("a shim receives texts only"), "{notice}");
    let at = stage.gateway.sees("assistant_message text heard").await;
    let heard = stage.gateway.delivered()[at].body["content"]["text"].to_string();
    assert!(heard.contains("look") && heard.contains("You cannot receive it."), "{heard}");
    stage.gateway.sees("turn_completed").await;
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
        let stage = Stage::empty().await;
        let script = json!({ "turn": [delegation(action, role, depth), { "hear": true }, completed()] });
        let mut begin = begin(&script, Some("do it"), false);
        begin.config.policies = delegating_to("reviewer");
        stage.begin(begin);
        let end = stage.event("session_end").await;
        assert_eq!([&end["isError"], &end["reason"]], [&json!(true), &json!("delegation_denied")]);
        assert!(end["message"].as_str().unwrap().ends_with(denied), "{end}");
    }
    let stage = Stage::empty().await;
    let allowed = json!({ "turn": [delegation("spawned", "reviewer", 1), delegation("returned", "reviewer", 1), completed()] });
    let mut begin = begin(&allowed, Some("do it"), false);
    begin.config.policies = delegating_to("reviewer");
    stage.begin(begin);
    stage.gateway.sees("turn_completed").await;
}

#[tokio::test]
async fn owner_decides_on_a_tool_call() {
    for (answer, input, resolution) in [
        ("Allow", None, json!("approve")),
        ("Allow", Some(json!({ "command": "ls" })), json!("modify")),
        ("use git", None, json!("reject")),
    ] {
        let stage = Stage::playing(json!({ "turn": [approval(), { "hear": true }, completed()] })).await;
        let at = stage.gateway.sees("question_asked").await;
        let asked = stage.gateway.delivered().swap_remove(at);
        assert_eq!(asked.body["approval"]["toolName"], "shell");
        let id = stage.gateway.decide(&asked, answer, input);
        stage.gateway.acknowledged(id, "done").await;
        let heard = stage.event("assistant_message text").await["content"]["text"].clone();
        assert!(heard.as_str().unwrap().contains(&format!("\"resolutionType\":{resolution}")), "{heard}");
    }
}

#[tokio::test]
async fn allowed_tool_needs_no_owner_outside_a_project() {
    let stage = Stage::empty().await;
    let script = json!({ "turn": [approval(), { "hear": true }, completed()] });
    let mut begin = begin(&script, Some("do it"), false);
    begin.config.allowed_tools = vec!["Shell".into()];
    stage.begin(begin);
    stage.gateway.sees("turn_completed").await;
    assert!(stage.gateway.story().iter().all(|event| event != "question_asked"));
}

#[tokio::test]
async fn control_plane_authorizes_a_call_in_a_project() {
    for (verdict, resolution) in [(Verdict::Allow, "approve"), (Verdict::Deny("Not on Fridays."), "reject")] {
        let mut risky = approval();
        risky["emit"]["severity"] = json!("high");
        risky["emit"]["blastRadius"] = json!("large");
        let stage =
            Stage::governed([verdict], json!({ "turn": [risky, { "hear": true }, completed()] })).await;
        let heard = stage.event("assistant_message text").await["content"]["text"].to_string();
        assert!(heard.contains(resolution), "{heard}");
        let asked = stage.gateway.authorizations().remove(0);
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
    let stage =
        Stage::governed([Verdict::Ask], json!({ "turn": [risky, { "hear": true }, completed()] })).await;
    let asked = stage.gateway.asks_for_permission(1).await;
    assert_eq!(stage.gateway.authorizations()[0]["reported"], risk);
    let id = stage.gateway.decide(&asked, "Allow", Some(json!({ "command": "ls" })));
    stage.gateway.acknowledged(id, "done").await;
    let heard = stage.event("assistant_message text").await["content"]["text"].to_string();
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
    let stage =
        Stage::playing(json!({ "turn": [{ "emit": decision }, { "hear": true }, completed()] })).await;
    let asked = stage.event("question_asked").await;
    assert_eq!((&asked["requestId"], &asked["proposal"]), (&json!("d1"), &proposal));
    assert_eq!(asked["questions"][0]["question"], "Which?\ns");
    assert!(!asked.to_string().contains("dueByTick"), "agents set no due time: {asked}");
    let answers = vec![Answer { question: "Which?\ns".into(), answer: "Blue: calmer".into() }];
    let request_id = "d1".parse().unwrap();
    let id = stage.gateway.send(Command::Answer { request_id, answers, modified_input: None });
    stage.gateway.acknowledged(id, "done").await;
    let heard = stage.event("assistant_message text").await["content"]["text"].to_string();
    assert!(heard.contains("chosenOptionId\\\":\\\"b") && heard.contains("calmer"), "{heard}");
}

#[tokio::test]
async fn message_is_injected_into_the_turn_or_begins_the_next() {
    let stage = Stage::playing(
        json!({ "turn": [said("first"), { "hear": true }, { "checkpoint": true }, completed()] }),
    )
    .await;
    stage.gateway.sees("assistant_message text first").await;
    stage.gateway.send(message("look here", MessagePriority::Immediate));
    stage.gateway.sees("assistant_message text heard \"look here\"").await;
    stage.gateway.sees("turn_completed").await;
    stage.gateway.send(message("and now this", MessagePriority::Queued));
    stage.gateway.sees("assistant_message text resumed at 7 with \"and now this\"").await;
    stage.gateway.sees_nth("turn_completed", 2).await;
    assert_eq!(stage.starts(), 1, "the same process");
}

#[tokio::test]
async fn pause_keeps_the_state_and_nothing_follows_it() {
    for plugin in [pauses(), json!({})] {
        let steps: Vec<_> = (0..400).map(|n| said(&format!("line {n}"))).collect();
        let mut turn = vec![said("begun"), json!({ "hear": true })];
        turn.extend(steps);
        turn.push(completed());
        let stage = Stage::playing(json!({ "plugin": plugin, "turn": turn })).await;
        stage.gateway.sees("assistant_message text begun").await;
        stage.gateway.send(message("go", MessagePriority::Immediate));
        let pause = stage.gateway.send(Command::Pause {});
        stage.gateway.acknowledged(pause, "done").await;
        let before = stage.gateway.story().iter().filter(|event| event.starts_with("assistant")).count();
        let kept = stage.folders.root().join("home/shim/checkpoint-1.json").exists();
        assert_eq!(kept, plugin["supportsPause"] == true);
        // A round trip through the sidecar, after which a late event would have arrived.
        let again = stage
            .gateway
            .send(Command::Adjust { adjustment: Adjustment::SetAllowance { allowance_usd: None } });
        stage.gateway.acknowledged(again, "done").await;
        let after = stage.gateway.story().iter().filter(|event| event.starts_with("assistant")).count();
        assert_eq!(before, after);
        let resume = stage.gateway.send(Command::Resume {});
        stage.gateway.acknowledged(resume, "done").await;
        stage.gateway.sees("assistant_message text line 399").await;
        stage.gateway.sees("turn_completed").await;
    }
}

#[tokio::test]
async fn answer_during_a_pause_reaches_the_agent_after_it() {
    let stage =
        Stage::playing(json!({ "plugin": pauses(), "turn": [approval(), { "hear": true }, completed()] }))
            .await;
    let at = stage.gateway.sees("question_asked").await;
    let asked = stage.gateway.delivered().swap_remove(at);
    let pause = stage.gateway.send(Command::Pause {});
    stage.gateway.acknowledged(pause, "done").await;
    let answer = stage.gateway.decide(&asked, "Allow", None);
    stage.gateway.acknowledged(answer, "done").await;
    assert!(!stage.gateway.story().iter().any(|event| event.contains("heard")));
    stage.gateway.send(Command::Resume {});
    stage.gateway.sees("turn_completed").await;
}

#[tokio::test]
async fn interrupt_ends_the_turn_and_keeps_the_conversation() {
    let stage = Stage::playing(json!({ "turn": [said("begun"), approval(), { "forever": true }] })).await;
    stage.gateway.sees("question_asked").await;
    let interrupt = stage.gateway.send(Command::Interrupt {});
    stage.gateway.acknowledged(interrupt, "done").await;
    assert!(!stage.gateway.story().iter().any(|event| event.starts_with("turn_completed")));
    stage.gateway.send(message("next", MessagePriority::Queued));
    stage.gateway.sees("assistant_message text resumed at 7 with \"next\"").await;
    assert_eq!(stage.starts(), 2, "no process of the interrupted turn is left");
}

#[tokio::test]
async fn run_after_a_kill_resumes_from_the_last_checkpoint() {
    let script = json!({ "turn": [{ "checkpoint": true }, said("begun"), { "forever": true }] });
    let stage = Stage::playing(script.clone()).await;
    stage.gateway.sees("assistant_message text begun").await;
    let stage = stage.next_run().await;
    stage.begin(begin(&script, Some("go on"), true));
    stage.gateway.sees("assistant_message text resumed at 7 with \"go on\"").await;
    stage.gateway.sees("turn_completed").await;
}

#[tokio::test]
async fn agent_without_a_checkpoint_gets_a_summary() {
    let script = json!({ "turn": [said("begun"), completed()] });
    let stage = Stage::playing(script).await;
    stage.gateway.sees("turn_completed").await;
    stage.gateway.send(message("next", MessagePriority::Queued));
    stage.gateway.sees("notice conversation_lost").await;
    stage.gateway.sees_nth("turn_completed", 2).await;
    assert_eq!(stage.starts(), 2);
}

#[tokio::test]
async fn unmetered_agent_waits_for_permission() {
    let stage = Stage::empty().await;
    let script = json!({ "turn": [said("begun"), completed()] });
    let mut begin = begin(&script, Some("do it"), false);
    begin.allow_unmetered = false;
    stage.begin(begin);
    stage.gateway.sees("turn_started").await;
    let pause = stage.gateway.send(Command::Pause {});
    stage.gateway.acknowledged(pause, "done").await;
    assert!(!stage.gateway.story().contains(&"assistant_message text begun".to_owned()));
    stage.gateway.send(Command::Resume {});
    stage.gateway.sees("turn_completed").await;
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
    let stage = Stage { gateway, folders, sidecar };
    let mut begin = begin(&json!({ "turn": [said("begun"), completed()] }), Some("do it"), false);
    begin.allow_unmetered = false;
    stage.begin(begin);
    stage.gateway.sees("turn_started").await;
    outage_with_a_pause(&stage.gateway, &stage.folders).await;
    let story = stage.gateway.story();
    assert!(!story.contains(&"assistant_message text begun".to_owned()), "{story:#?}");
    let resume = stage.gateway.send(Command::Resume {});
    stage.gateway.acknowledged(resume, "done").await;
    stage.gateway.sees("turn_completed").await;
}

#[tokio::test]
async fn reported_usage_is_priced_and_stops_at_the_allowance() {
    let usage = json!({ "emit": { "type": "raw_provider", "providerName": "fake", "eventType": "usage",
        "payload": { "modelId": "m", "inputTokens": 10, "outputTokens": 2, "costUsd": 0.5 } } });
    let script = json!({ "turn": [usage, said("one"), usage, { "hear": true }, completed()] });
    let stage = Stage::empty().await;
    let mut begin = begin(&script, Some("do it"), false);
    begin.allowance_usd = Some("1".into());
    stage.begin(begin);
    stage.gateway.sees("budget_exceeded").await;
    let events = stage.gateway.delivered();
    let spent: Vec<_> =
        events.iter().filter(|it| it.kind() == "usage_update").map(|it| it.body["costUsd"].clone()).collect();
    assert_eq!(spent, [json!("0.5"), json!("1")]);
}

/// The folders in `/proc` of the processes of the shim, and their environments. A process that has ended has none.
fn shim_processes(stage: &Stage) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let path = process.path();
        let Ok(environment) = std::fs::read(path.join("environ")) else { continue };
        let environment = String::from_utf8_lossy(&environment).into_owned();
        let here =
            std::fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd.starts_with(stage.folders.root()));
        if here && environment.contains("FAKE_SHIM=") {
            found.push((path, environment));
        }
    }
    found
}

#[tokio::test]
async fn shim_gets_no_key_of_the_run() {
    let stage = Stage::playing(json!({ "turn": [said("begun"), { "forever": true }] })).await;
    stage.gateway.sees("assistant_message text begun").await;
    let token = stage.gateway.secret.gateway_token(stage.gateway.session, stage.gateway.run);
    let processes = shim_processes(&stage);
    assert!(!processes.is_empty());
    for (path, environment) in processes {
        let line = std::fs::read_to_string(path.join("cmdline")).unwrap();
        for secret in [token.as_str(), "ph_the_key_of_the_session"] {
            assert!(!environment.contains(secret) && !line.contains(secret));
        }
    }
    assert!(
        stage
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
    let stage = Stage::playing(json!({ "turn": [said("begun"), { "forever": true }] })).await;
    stage.gateway.sees("assistant_message text begun").await;
    assert!(!shim_processes(&stage).is_empty());
    stage.sidecar.signal(Signal::SIGKILL);
    let ended = |_: &Gateway| shim_processes(&stage).is_empty().then_some(());
    stage.gateway.until("the end of the shim", ended).await;
}
