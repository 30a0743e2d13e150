//! The raw events for the events of S1 (S1 4.2, 7), with their names and fields.

use std::time::Duration;

use pilothouse_agent::message::{StopReason, Usage, UserMessage};
use pilothouse_domain::Timestamp;

use serde_json::Value;

use super::*;

fn turn() -> TurnId {
    TurnId::parse("turn-1").unwrap()
}

fn raw_events(event: SessionEvent) -> Vec<Value> {
    let raw_events = events(event, Some(&turn()));
    raw_events.into_iter().map(|event| serde_json::to_value(event).unwrap()).collect()
}

fn message(message: AgentMessage) -> SessionEvent {
    SessionEvent::MessageEnd { entry_id: "entry-1".into(), message }
}

#[test]
fn retries_and_summaries_are_notices_with_specified_names() {
    let retry = SessionEvent::AutoRetryStart {
        attempt: 2,
        max_attempts: Some(5),
        delay: Duration::from_millis(1_500),
        error: "overloaded".into(),
    };
    let notice = &raw_events(retry)[0];
    assert_eq!((&notice["type"], &notice["name"]), (&json!("notice"), &json!("auto_retry_start")));
    assert_eq!(notice["detail"], json!({ "attempt": 2, "maxAttempts": 5, "delayMs": 1500 }));
    assert!(notice["summary"].as_str().unwrap().contains("overloaded"), "{notice}");

    for success in [true, false] {
        let notice = &raw_events(SessionEvent::AutoRetryEnd { success, attempts: 3 })[0];
        assert_eq!(notice["name"], "auto_retry_end");
        assert_eq!(notice["detail"], json!({ "success": success, "attempts": 3 }));
    }

    for (reason, name) in [
        (CompactionReason::Threshold, "threshold"),
        (CompactionReason::Overflow, "overflow"),
        (CompactionReason::Manual, "manual"),
    ] {
        let notice = &raw_events(SessionEvent::CompactionStart { reason })[0];
        assert_eq!(
            (&notice["name"], &notice["detail"]),
            (&json!("auto_compaction_start"), &json!({ "reason": name }))
        );
        let ended = |result| SessionEvent::CompactionEnd { reason, tokens_before: 900, result };
        let notice = &raw_events(ended(Ok("what was said".into())))[0];
        assert_eq!(notice["name"], "auto_compaction_end");
        assert_eq!(
            notice["detail"],
            json!({ "reason": name, "tokensBefore": 900, "summary": "what was said" })
        );
        let notice = &raw_events(ended(Err("no model".into())))[0];
        assert!(notice["summary"].as_str().unwrap().ends_with("could not be summarised: no model"));
        assert_eq!(notice["detail"]["summary"], Value::Null);
    }
}

#[test]
fn answer_is_reported_by_block_without_empty_ones() {
    let call = ToolCall { id: "toolu_1".into(), name: "bash".into(), arguments: json!({ "command": "ls" }) };
    let answer = AssistantMessage {
        content: vec![
            AgentContent::Thinking { thinking: "hm".into(), signature: Some("signed".into()) },
            AgentContent::Text { text: "I look.".into() },
            AgentContent::Text { text: " \n".into() },
            AgentContent::ToolCall(call),
        ],
        provider: "anthropic".into(),
        model: "large".into(),
        usage: Usage::default(),
        stop_reason: StopReason::ToolUse,
        error: None,
        timestamp: Timestamp::from_millis(0),
    };
    let said = raw_events(message(AgentMessage::Assistant(answer)));
    let kinds: Vec<_> = said.iter().map(|event| event["content"]["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["thinking", "text", "tool_use"]);
    assert!(said.iter().all(|event| event["type"] == "assistant_message" && event["turnId"] == "turn-1"));
    assert_eq!((&said[0]["content"]["text"], &said[1]["content"]["text"]), (&json!("hm"), &json!("I look.")));
    assert_eq!(said[2]["content"]["input"], json!({ "command": "ls" }));
    assert!(!said[0].to_string().contains("signed"), "the signature is the provider's");
}

#[test]
fn result_reports_errors_and_names_images() {
    for is_error in [true, false] {
        let result = ToolResultMessage {
            tool_call_id: "toolu_1".into(),
            tool_name: "read".into(),
            content: vec![
                UserContent::Text { text: "seen".into() },
                UserContent::Image { mime_type: "image/png".into(), data: "AAAA".into() },
            ],
            is_error,
            timestamp: Timestamp::from_millis(0),
        };
        let result = &raw_events(message(AgentMessage::ToolResult(result)))[0];
        assert_eq!((&result["type"], &result["toolCallId"]), (&json!("tool_result"), &json!("toolu_1")));
        assert_eq!(result["isError"], is_error);
        assert_eq!(result["content"][1]["text"], "[an image: image/png, 3 bytes]");
        assert!(!result.to_string().contains("AAAA"), "{result}");
    }
}

#[test]
fn owner_command_is_reported_as_a_call_with_its_result() {
    for (exit_code, cancelled, is_error) in
        [(Some(0), false, false), (Some(3), false, true), (None, true, true)]
    {
        let ran = BashExecution {
            command: "make".into(),
            output: "made".into(),
            exit_code,
            cancelled,
            truncated: false,
            exclude_from_context: true,
            timestamp: Timestamp::from_millis(0),
        };
        let raw_events = raw_events(message(AgentMessage::BashExecution(ran)));
        let [call, result] = &raw_events[..] else { panic!("{raw_events:#?}") };
        assert_eq!(call["content"]["toolName"], "bash");
        assert_eq!(call["content"]["input"], json!({ "command": "make", "excludedFromContext": true }));
        assert_eq!(call["content"]["toolCallId"], result["toolCallId"]);
        assert_eq!((&result["content"], &result["isError"]), (&json!("made"), &json!(is_error)));
    }
}

#[test]
fn internal_events_are_not_reported() {
    let user = UserMessage { content: Vec::new(), timestamp: Timestamp::from_millis(0) };
    for event in [
        SessionEvent::TurnStart,
        SessionEvent::TextDelta("half".into()),
        SessionEvent::QueueUpdate { steering: 1, follow_up: 0 },
        message(AgentMessage::User(user)),
    ] {
        assert_eq!(raw_events(event.clone()), Vec::<Value>::new(), "{event:?}");
    }
}
