//! The names and fields by which S1 is told (S1 4.2, 7), and what is left out.

use std::time::Duration;

use pilothouse_agent::message::{StopReason, Usage, UserMessage};
use pilothouse_domain::Timestamp;

use super::*;

fn turn() -> TurnId {
    TurnId::parse("turn-1").unwrap()
}

/// What is told of an event, as it goes over the wire.
fn told(event: SessionEvent) -> Vec<Value> {
    let told = events(event, Some(&turn()));
    told.into_iter().map(|event| serde_json::to_value(event).unwrap()).collect()
}

fn message(message: AgentMessage) -> SessionEvent {
    SessionEvent::MessageEnd { entry_id: "entry-1".into(), message }
}

#[test]
fn retries_and_summaries_are_notices_with_the_names_of_the_specification() {
    let retry = SessionEvent::AutoRetryStart {
        attempt: 2,
        max_attempts: 5,
        delay: Duration::from_millis(1_500),
        error: "overloaded".into(),
    };
    let notice = &told(retry)[0];
    assert_eq!((&notice["type"], &notice["name"]), (&json!("notice"), &json!("auto_retry_start")));
    assert_eq!(notice["detail"], json!({ "attempt": 2, "maxAttempts": 5, "delayMs": 1500 }));
    assert!(notice["summary"].as_str().unwrap().contains("overloaded"), "{notice}");

    for success in [true, false] {
        let notice = &told(SessionEvent::AutoRetryEnd { success, attempts: 3 })[0];
        assert_eq!(notice["name"], "auto_retry_end");
        assert_eq!(notice["detail"], json!({ "success": success, "attempts": 3 }));
    }

    for (reason, name) in [
        (CompactionReason::Threshold, "threshold"),
        (CompactionReason::Overflow, "overflow"),
        (CompactionReason::Manual, "manual"),
    ] {
        let notice = &told(SessionEvent::CompactionStart { reason })[0];
        assert_eq!(
            (&notice["name"], &notice["detail"]),
            (&json!("auto_compaction_start"), &json!({ "reason": name }))
        );
        let ended = |result| SessionEvent::CompactionEnd { reason, tokens_before: 900, result };
        let notice = &told(ended(Ok("what was said".into())))[0];
        assert_eq!(notice["name"], "auto_compaction_end");
        assert_eq!(
            notice["detail"],
            json!({ "reason": name, "tokensBefore": 900, "summary": "what was said" })
        );
        let notice = &told(ended(Err("no model".into())))[0];
        assert!(notice["summary"].as_str().unwrap().ends_with("could not be summarised: no model"));
        assert_eq!(notice["detail"]["summary"], Value::Null);
    }
}

#[test]
fn an_answer_is_told_block_by_block_and_what_is_empty_is_not() {
    let call = ToolCall { id: "toolu_1".into(), name: "bash".into(), arguments: json!({ "command": "ls" }) };
    let answer = AssistantMessage {
        content: vec![
            Said::Thinking { thinking: "hm".into(), signature: Some("signed".into()) },
            Said::Text { text: "I look.".into() },
            Said::Text { text: " \n".into() },
            Said::ToolCall(call),
        ],
        provider: "anthropic".into(),
        model: "large".into(),
        usage: Usage::default(),
        stop_reason: StopReason::ToolUse,
        error: None,
        timestamp: Timestamp::from_millis(0),
    };
    let said = told(message(AgentMessage::Assistant(answer)));
    let kinds: Vec<_> = said.iter().map(|event| event["content"]["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["thinking", "text", "tool_use"]);
    assert!(said.iter().all(|event| event["type"] == "assistant_message" && event["turnId"] == "turn-1"));
    assert_eq!((&said[0]["content"]["text"], &said[1]["content"]["text"]), (&json!("hm"), &json!("I look.")));
    assert_eq!(said[2]["content"]["input"], json!({ "command": "ls" }));
    assert!(!said[0].to_string().contains("signed"), "the signature is the provider's");
}

#[test]
fn a_result_says_whether_it_is_an_error_and_images_are_named_and_not_shown() {
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
        let result = &told(message(AgentMessage::ToolResult(result)))[0];
        assert_eq!((&result["type"], &result["toolCallId"]), (&json!("tool_result"), &json!("toolu_1")));
        assert_eq!(result["isError"], is_error);
        assert_eq!(result["content"][1]["text"], "[an image: image/png, 3 bytes]");
        assert!(!result.to_string().contains("AAAA"), "{result}");
    }
}

#[test]
fn a_command_of_the_owner_is_a_call_with_its_result_also_when_no_model_sees_it() {
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
        let told = told(message(AgentMessage::BashExecution(ran)));
        let [call, result] = &told[..] else { panic!("{told:#?}") };
        assert_eq!(call["content"]["toolName"], "bash");
        assert_eq!(call["content"]["input"], json!({ "command": "make", "excludedFromContext": true }));
        assert_eq!(call["content"]["toolCallId"], result["toolCallId"]);
        assert_eq!((&result["content"], &result["isError"]), (&json!("made"), &json!(is_error)));
    }
}

#[test]
fn what_only_a_program_beside_it_needs_is_not_told() {
    let user = UserMessage { content: Vec::new(), timestamp: Timestamp::from_millis(0) };
    for event in [
        SessionEvent::TurnStart,
        SessionEvent::TextDelta("half".into()),
        SessionEvent::QueueUpdate { steering: 1, follow_up: 0 },
        message(AgentMessage::User(user)),
    ] {
        assert_eq!(told(event.clone()), Vec::<Value>::new(), "{event:?}");
    }
}
