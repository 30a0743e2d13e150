//! Recorded messages of a real agent, run through the translator.

use std::path::PathBuf;

use pilothouse_domain::TurnId;
use pilothouse_wire::event::{AssistantContent, RawEvent};
use serde_json::Value;

use super::agents::{Advertised, Resumption, Steering, UNKNOWN};
use super::meter::{Meter, Totals};
use super::translator::{Handoff, Translator, UpdateMode};
use crate::kit::json::text;

fn said() -> Vec<Value> {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/transcripts/acp-claude.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .filter(|line| line["dir"] == "out" || line["dir"] == "in")
        .map(|mut line| {
            let mut message = line["m"].take();
            message["dir"] = line["dir"].take();
            message
        })
        .collect()
}

const SESSION: &str = "04b73097-4e7f-4837-8ddd-3d6c156f72dd";

/// Plays the recording like the driver: a prompt begins a turn, its response ends it.
fn play() -> (Translator, Vec<RawEvent>) {
    let mut translator =
        Translator::new(SESSION, "default", Meter::new(SESSION, Totals::default(), "default", 85));
    let (mut events, mut prompts) = (Vec::new(), Vec::new());
    for message in said() {
        let id = message["id"].as_u64();
        match (text(&message, "dir"), text(&message, "method")) {
            (Some("in"), Some("session/prompt")) => {
                prompts.extend(id);
                translator.begin_turn(TurnId::parse(format!("t.{}", id.unwrap())).unwrap());
            }
            (Some("in"), Some("session/load" | "session/resume")) => {
                translator.update_mode = UpdateMode::Replay;
            }
            (Some("out"), Some("session/update")) => {
                events.extend(translator.update(&message["params"], &|_| None));
            }
            (Some("out"), Some("session/request_permission")) => {
                events.extend(translator.publish_for_request(&message["params"]["toolCall"]));
            }
            (Some("out"), None) if id.is_some_and(|id| prompts.contains(&id)) => {
                // A second prompt joined the first one's turn, so only the last response ends it.
                if id == prompts.last().copied() {
                    events.extend(translator.end_turn("over"));
                }
                events.extend(translator.meter.turn(&message["result"]));
            }
            (Some("out"), None) if message["result"]["modes"].is_object() => {
                translator.settings.opened(&message["result"]);
            }
            _ => {}
        }
    }
    (translator, events)
}

#[test]
fn every_recorded_call_is_reported_once_and_then_its_result() {
    let (_, events) = play();
    let mut open = std::collections::BTreeMap::new();
    let mut done = 0;
    for event in &events {
        match event {
            RawEvent::AssistantMessage {
                content: AssistantContent::ToolUse { tool_call_id, tool_name, input },
                ..
            }
            | RawEvent::SubagentMessage {
                content: AssistantContent::ToolUse { tool_call_id, tool_name, input },
                ..
            } => {
                let before = open.insert(tool_call_id.clone(), (tool_name.clone(), input.clone()));
                assert_eq!(before, None, "told twice");
            }
            RawEvent::ToolResult { tool_call_id, .. } => {
                assert!(open.contains_key(tool_call_id), "a result without a call");
                done += 1;
            }
            _ => {}
        }
    }
    assert_eq!(done, open.len());
    let input = |call: &str| {
        open.iter().find(|(id, _)| id.as_str() == call).map(|(_, (name, input))| format!("{name} {input}"))
    };
    assert_eq!(input("toolu_3524ccdd0aec9").unwrap(), r#"Bash {"command":"cat a.txt","description":"d"}"#);
    assert!(
        input("toolu_c6ba3c2f923a19").unwrap().contains("new_string"),
        "the input that was streamed last"
    );
    assert_eq!(input("toolu_66d8247def5460").unwrap(), r#"ExitPlanMode {"plan":"do x"}"#);
    assert!(input("toolu_09d59320b47045").unwrap().contains("Which colour?"));
}

#[test]
fn chunks_form_whole_messages_and_loaded_ones_are_not_repeated() {
    let (_, events) = play();
    let said: Vec<String> = events
        .iter()
        .filter_map(|event| match event {
            RawEvent::AssistantMessage { content: AssistantContent::Text { text }, turn_id } => {
                assert!(turn_id.is_some());
                Some(text.text().into_owned())
            }
            RawEvent::AssistantMessage { content: AssistantContent::Thinking { text }, .. } => {
                Some(format!("({})", text.text()))
            }
            RawEvent::SubagentMessage { content: AssistantContent::Text { text }, .. } => {
                Some(format!("sub: {}", text.text()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        said,
        [
            "(hmm)",
            "start",
            "sub: sr",
            "sub: sub done",
            "fin",
            "ok q",
            "ok p",
            "r",
            "r",
            "D end",
            "recovered after 2 errors",
            "yes"
        ]
    );
}

#[test]
fn recorded_plan_subagent_and_cost_are_reported() {
    let (translator, events) = play();
    let named = |name: &str| events.iter().filter(|event| event.name() == name).count();
    assert_eq!((named("task_list"), named("subagent_started"), named("subagent_ended")), (2, 1, 1));
    let modes: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            RawEvent::Notice { name, summary, .. } if name == "mode_changed" => summary.rsplit(' ').next(),
            _ => None,
        })
        .collect();
    assert_eq!(modes[..2], ["plan", "default"]);
    let cost: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            RawEvent::UsageUpdate(usage) => {
                Some((usage.model_id.as_str(), usage.cost_usd.as_str(), usage.token_usage))
            }
            _ => None,
        })
        .collect();
    let last = cost.last().unwrap();
    assert_eq!((last.0, last.1), ("claude-sonnet-4-5", "0.151407"));
    assert_eq!(last.2.input_tokens, 15459 + 4741 + 7474 + 2560 + 5228 + 2631 + 2639);
    assert_eq!(translator.settings.model_id("x"), "claude-sonnet-4-5");
    assert!(!translator.subagents_work());
    assert!(
        !events
            .iter()
            .any(|event| matches!(event, RawEvent::Notice { name, .. } if name.starts_with("unknown")))
    );
}

#[test]
fn agent_reports_steering_and_resume_support() {
    let all = said();
    let response = all.iter().find(|message| message["result"]["agentInfo"].is_object()).unwrap();
    let agent = Advertised::read(&response["result"], UNKNOWN);
    assert_eq!(
        (agent.steering, agent.resumption, agent.profile.name),
        (Steering::Extension, Resumption::Resume, "claude-code-acp")
    );
    assert!(agent.mcp.http && agent.auth_methods.is_empty());
}

#[test]
fn handoff_document_is_reported_after_its_message() {
    let mut translator =
        Translator::new(SESSION, "default", Meter::new(SESSION, Totals::default(), "default", 85));
    translator.begin_turn(TurnId::parse("t.1").unwrap());
    translator.handoff = Handoff::Requested;
    let words =
        "<handoff_document>{\"summary\": \"Did a.\", \"remainingWork\": \"Do b.\"}</handoff_document>";
    let update = serde_json::json!({ "sessionId": SESSION, "update": {
        "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": words },
    } });
    assert_eq!(translator.update(&update, &|_| None), [], "the message may go on");
    let names: Vec<_> = translator.end_turn("over").iter().map(RawEvent::name).collect();
    assert_eq!(names, ["assistant_message", "handoff_document"]);
}
