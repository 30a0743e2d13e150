//! Cases that the recordings do not contain: interrupts, background subagents, a full context, a process that dies,
//! and unknown messages.

use pilothouse_domain::{MessageId, TurnId};
use pilothouse_sidecar::kit::claude_stream::{
    Ignored, MessageState, Signal, Translated, Translator, TurnEnd,
};
use pilothouse_wire::event::{AssistantContent, Content, RawEvent};
use serde_json::{Value, json};

use crate::support::options;

fn translator() -> Translator {
    Translator::new(options())
}

fn names(translated: &Translated) -> Vec<&'static str> {
    translated.events.iter().map(RawEvent::name).collect()
}

fn says(text: &str) -> Value {
    json!({"type": "assistant", "session_id": "s", "parent_tool_use_id": null, "message": {"id": text, "model": "m",
        "content": [{"type": "text", "text": text}],
        "usage": {"input_tokens": 10, "output_tokens": 1}}})
}

fn calls(id: &str, tool: &str, input: &Value) -> Value {
    json!({"type": "assistant", "session_id": "s", "parent_tool_use_id": null, "message": {"id": id, "model": "m",
        "content": [{"type": "tool_use", "id": id, "name": tool, "input": input}]}})
}

fn answers(id: &str, content: &Value, outcome: &Value) -> Value {
    json!({"type": "user", "session_id": "s", "parent_tool_use_id": null, "tool_use_result": outcome,
        "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": content}]}})
}

fn init() -> Value {
    json!({"type": "system", "subtype": "init", "session_id": "s", "model": "m"})
}

fn success() -> Value {
    json!({"type": "result", "subtype": "success", "is_error": false, "terminal_reason": "completed",
        "session_id": "s", "modelUsage": {}, "total_cost_usd": 0})
}

fn task_started(background: bool) -> Value {
    json!({"type": "system", "subtype": "task_started", "session_id": "s", "task_id": "a1", "tool_use_id": "call",
        "task_type": "local_agent", "prompt": "look", "is_backgrounded": background})
}

fn task_updated(status: &str) -> Value {
    json!({"type": "system", "subtype": "task_updated", "session_id": "s", "task_id": "a1",
        "patch": {"status": status}})
}

fn interrupted_result() -> Value {
    json!({"type": "result", "subtype": "error_during_execution", "is_error": true, "session_id": "s",
        "terminal_reason": "aborted_tools", "errors": []})
}

// Interrupts (decision 19)

#[test]
fn interrupted_turn_is_not_completed_and_ends_nothing_else() {
    let mut translator = translator();
    translator.line(&says("working"));
    let end = translator.line(&interrupted_result());
    assert_eq!(names(&end), ["notice"]);
    assert_eq!(end.signals, [Signal::TurnEnded(TurnEnd::Interrupted)]);
    assert_eq!(translator.turn_id(), None);
    assert_eq!(translator.finish(), []);
}

#[test]
fn interrupt_is_recognised_by_its_request() {
    let mut translator = translator();
    translator.line(&says("working"));
    translator.interrupt_requested();
    let result =
        json!({"type": "result", "subtype": "error_during_execution", "is_error": true, "session_id": "s"});
    assert_eq!(translator.line(&result).signals, [Signal::TurnEnded(TurnEnd::Interrupted)]);

    // The interrupt was completed, so the same result in the next turn is an error.
    translator.line(&says("again"));
    assert_eq!(translator.line(&result).signals, [Signal::TurnEnded(TurnEnd::Failed)]);
}

#[test]
fn interrupt_is_recognised_by_the_conversation_marker() {
    let mut translator = translator();
    translator.line(&says("working"));
    let mark = json!({"type": "user", "session_id": "s", "parent_tool_use_id": null, "message": {"role": "user",
        "content": [{"type": "text", "text": "[Request interrupted by user for tool use]"}]}});
    assert_eq!(translator.line(&mark).ignored, Some(Ignored::UserPrompt));
    let result = json!({"type": "result", "subtype": "success", "is_error": false, "session_id": "s"});
    assert_eq!(translator.line(&result).signals, [Signal::TurnEnded(TurnEnd::Interrupted)]);
}

#[test]
fn turn_that_ended_before_the_interrupt_is_completed() {
    let mut translator = translator();
    translator.line(&says("done"));
    translator.interrupt_requested();
    assert_eq!(names(&translator.line(&success())), ["turn_completed"]);
}

#[test]
fn interrupt_ends_the_subagents_that_the_main_loop_awaits() {
    let mut translator = translator();
    translator.line(&calls("call", "Agent", &json!({"prompt": "look"})));
    translator.line(&task_started(false));
    assert_eq!(names(&translator.line(&interrupted_result())), ["subagent_ended", "notice"]);
}

// Turns and subagents (decision 18)

#[test]
fn turn_completes_after_its_background_subagent() {
    let mut translator = translator();
    translator.line(&calls("call", "Agent", &json!({"prompt": "look", "run_in_background": true})));
    assert_eq!(names(&translator.line(&task_started(true))), ["subagent_started"]);
    let launched =
        answers("call", &json!("Launched."), &json!({"status": "async_launched", "agentId": "a1"}));
    assert_eq!(names(&translator.line(&launched)), ["tool_result"]);
    let result = translator.line(&success());
    assert_eq!(result.events, []);
    assert_eq!(result.ignored, Some(Ignored::RepeatedResult));
    assert!(translator.turn_id().is_some());

    let late = json!({"type": "assistant", "session_id": "s", "parent_tool_use_id": "call", "agent_id": "a1",
        "message": {"id": "x", "model": "m", "content": [{"type": "text", "text": "late"}]}});
    assert_eq!(names(&translator.line(&late)), ["subagent_message"]);
    let end = translator.line(&task_updated("completed"));
    assert_eq!(names(&end), ["subagent_ended", "turn_completed"]);
    assert_eq!(end.signals, [Signal::TurnEnded(TurnEnd::Completed)]);
}

#[test]
fn an_interrupt_ends_the_turn_of_a_subagent_in_any_order() {
    for result_first in [true, false] {
        let mut translator = translator();
        translator.line(&calls("call", "Agent", &json!({"prompt": "look", "run_in_background": true})));
        translator.line(&task_started(true));
        translator.line(&answers("call", &json!("Launched."), &json!({"status": "async_launched"})));
        translator.interrupt_requested();
        // The main loop ended before the interrupt; its subagent did not.
        let mut lines = [success(), task_updated("killed")];
        if !result_first {
            lines.reverse();
        }
        let [first, second] = lines.map(|line| translator.line(&line));
        let emitted: Vec<_> = names(&first).into_iter().chain(names(&second)).collect();
        assert_eq!(emitted, ["subagent_ended", "notice"], "{result_first}");
        assert_eq!(second.signals, [Signal::TurnEnded(TurnEnd::Interrupted)]);
    }
}

#[test]
fn background_call_result_does_not_end_its_subagent() {
    let mut translator = translator();
    translator.line(&calls("call", "Agent", &json!({"prompt": "look"})));
    translator.line(&task_started(false));
    let launched = answers("call", &json!("Launched."), &json!({"status": "async_launched"}));
    assert_eq!(names(&translator.line(&launched)), ["tool_result"]);
    // An interrupt of the main loop does not end the subagent.
    assert_eq!(names(&translator.line(&interrupted_result())), ["notice"]);
    assert_eq!(names(&translator.line(&task_updated("killed"))), ["subagent_ended"]);
}

#[test]
fn continued_turn_needs_another_result() {
    let mut translator = translator();
    translator.line(&calls("call", "Agent", &json!({"prompt": "look"})));
    translator.line(&task_started(true));
    translator.line(&success());
    // The main loop continues while its subagent is running: one prompt, several results, one turn.
    let again = translator.line(&says("meanwhile"));
    assert!(!names(&again).contains(&"turn_started"));
    assert_eq!(names(&translator.line(&task_updated("completed"))), ["subagent_ended"]);
    assert_eq!(names(&translator.line(&success())), ["turn_completed"]);
}

#[test]
fn interleaved_messages_stay_with_their_agents() {
    let mut translator = translator();
    translator.line(&calls("call", "Agent", &json!({"prompt": "look", "run_in_background": true})));
    translator.line(&task_started(true));
    let launched = json!({"status": "async_launched", "agentId": "a1"});
    translator.line(&answers("call", &json!("Launched."), &launched));
    let of_subagent = |text: &str| {
        let mut line = says(text);
        line["parent_tool_use_id"] = json!("call");
        line["agent_id"] = json!("a1");
        line
    };
    let mut texts = Vec::new();
    for line in [says("one"), of_subagent("two"), says("three"), of_subagent("four")] {
        let events = translator.line(&line).events;
        let events = events.iter().map(|event| serde_json::to_value(event).unwrap());
        texts.extend(
            events
                .filter(|event| event["content"]["kind"] == "text")
                .map(|event| (event["subagentId"].clone(), event["content"]["text"].clone())),
        );
    }
    let own = |text: &str| (Value::Null, json!(text));
    let theirs = |text: &str| (json!("a1"), json!(text));
    assert_eq!(texts, [own("one"), theirs("two"), own("three"), theirs("four")]);
}

#[test]
fn a_second_result_without_new_work_changes_nothing() {
    let mut translator = translator();
    translator.line(&says("done"));
    translator.line(&success());
    assert_eq!(translator.line(&success()).ignored, Some(Ignored::RepeatedResult));
}

#[test]
fn failed_subagent_reports_its_reason() {
    let mut translator = translator();
    translator.line(&task_started(false));
    let failed = json!({"type": "system", "subtype": "task_notification", "session_id": "s", "task_id": "a1",
        "status": "failed", "summary": "out of\nluck"});
    let translated = translator.line(&failed);
    assert!(matches!(&translated.events[..],
        [RawEvent::SubagentEnded { failure: Some(why), .. }] if why == "out of luck"));
    assert_eq!(translator.line(&task_updated("failed")).ignored, Some(Ignored::SubagentAlreadyEnded));
}

#[test]
fn subagents_are_found_by_their_messages_without_task_events() {
    let mut translator = translator();
    translator.line(&calls(
        "call",
        "Task",
        &json!({"description": "look", "prompt": "look around", "model": "h"}),
    ));
    let first = json!({"type": "assistant", "session_id": "s", "parent_tool_use_id": "call",
        "message": {"id": "x", "model": "h", "content": [{"type": "text", "text": "hi"}]}});
    let translated = translator.line(&first);
    assert_eq!(names(&translated), ["subagent_started", "subagent_message"]);
    assert!(
        matches!(&translated.events[0], RawEvent::SubagentStarted { subagent_id, objective, model_id, .. }
        if subagent_id.as_str() == "call" && objective == "look around" && model_id.as_deref() == Some("h"))
    );
    let result = answers("call", &json!([{"type": "text", "text": "seen"}]), &json!({"status": "completed"}));
    assert_eq!(names(&translator.line(&result)), ["tool_result", "subagent_ended"]);
}

#[test]
fn background_shell_is_no_subagent_and_keeps_no_turn_open() {
    let mut translator = translator();
    translator.line(&says("starting a server"));
    let shell = json!({"type": "system", "subtype": "task_started", "session_id": "s", "task_id": "b1",
        "task_type": "local_bash", "description": "npm start"});
    assert_eq!(names(&translator.line(&shell)), ["notice"]);
    assert_eq!(names(&translator.line(&success())), ["turn_completed"]);
}

// The end of the process

#[test]
fn process_exit_between_turns_does_not_end_the_conversation() {
    let mut translator = translator();
    translator.line(&says("done"));
    translator.line(&success());
    assert_eq!(translator.finish(), []);
}

#[test]
fn process_exit_within_a_turn_is_an_error() {
    let mut translator = translator();
    translator.line(&says("working"));
    translator.line(&task_started(true));
    let events = translator.finish();
    let names: Vec<_> = events.iter().map(RawEvent::name).collect();
    assert_eq!(names, ["subagent_ended", "session_end"]);
    assert!(matches!(&events[1], RawEvent::SessionEnd(end) if end.is_error && end.reason == "stream_ended"));
    assert_eq!(translator.finish(), []);
}

#[test]
fn unannounced_error_ends_the_conversation() {
    let mut translator = translator();
    translator.line(&says("working"));
    let thrown = translator.line(&json!({"__throw": "spawn failed"}));
    assert!(matches!(&thrown.events[..], [RawEvent::SessionEnd(end)]
        if end.is_error && end.reason == "process_error" && end.message.as_deref() == Some("spawn failed")));
    assert_eq!(translator.line(&json!({"__throw": "spawn failed"})).ignored, Some(Ignored::RepeatedThrow));
}

#[test]
fn turn_after_an_error_starts_normally() {
    let mut translator = translator();
    translator.line(&says("a"));
    translator.line(
        &json!({"type": "result", "subtype": "error_during_execution", "is_error": true, "session_id": "s"}),
    );
    let begun = translator.line(&init());
    assert_eq!(
        begun.events[0],
        RawEvent::TurnStarted { turn_id: TurnId::parse("run.2").unwrap(), message_id: None }
    );
    assert_eq!(translator.finish().len(), 1);
}

// Messages of the user

#[test]
fn a_turn_names_the_message_that_began_it() {
    let mut translator = translator();
    translator.line(&says("first"));
    translator.line(&success());
    let uuid = "6e8f37c9-1091-4f00-8951-e55b19700675";
    let lifecycle = |state: &str| json!({"type": "command_lifecycle", "command_uuid": uuid, "state": state});
    let queued = translator.line(&lifecycle("queued"));
    assert_eq!(queued.signals, [Signal::Message { uuid: uuid.into(), state: MessageState::Queued }]);
    translator.line(&lifecycle("started"));
    let message_id: MessageId = uuid.parse().unwrap();
    let begun = translator.line(&init());
    let turn_id = TurnId::parse("run.2").unwrap();
    assert_eq!(begun.events, [RawEvent::TurnStarted { turn_id, message_id: Some(message_id) }]);
}

#[test]
fn a_cancelled_message_begins_no_turn() {
    let mut translator = translator();
    let uuid = "6e8f37c9-1091-4f00-8951-e55b19700675";
    for state in ["queued", "cancelled"] {
        translator.line(&json!({"type": "command_lifecycle", "command_uuid": uuid, "state": state}));
    }
    assert!(matches!(&translator.line(&init()).events[..], [RawEvent::TurnStarted { message_id: None, .. }]));
}

// Context and usage

#[test]
fn full_conversation_is_exhausted_before_it_ends() {
    let mut translator = translator();
    translator.line(&says("working"));
    let result = json!({"type": "result", "subtype": "success", "is_error": true, "session_id": "s",
        "terminal_reason": "prompt_too_long", "result": "Prompt is too long"});
    assert_eq!(names(&translator.line(&result)), ["context_exhausted", "session_end"]);
}

#[test]
fn context_warning_is_sent_once_per_fill() {
    let mut translator = Translator::new(options().context_limit(1000));
    let uses = |id: &str, tokens: u64| {
        json!({"type": "assistant", "session_id": "s", "parent_tool_use_id": null, "message": {"id": id, "model": "m",
            "content": [{"type": "text", "text": "x"}], "usage": {"input_tokens": tokens, "output_tokens": 0}}})
    };
    let mut warnings = Vec::new();
    for (id, tokens) in [("1", 849), ("2", 850), ("3", 900), ("4", 100), ("5", 999)] {
        for event in translator.line(&uses(id, tokens)).events {
            if let RawEvent::ContextNearingLimit { usage_percent } = event {
                warnings.push((id, usage_percent));
            }
        }
    }
    assert_eq!(warnings, [("2", "85.00".to_owned()), ("5", "99.90".to_owned())]);
}

#[test]
fn a_total_never_goes_down() {
    let mut translator = translator();
    let result = |cost: f64, tokens: u64| {
        json!({"type": "result", "subtype": "success", "is_error": false, "session_id": "s", "total_cost_usd": cost,
            "modelUsage": {"m": {"inputTokens": tokens, "outputTokens": 0, "costUSD": cost}}})
    };
    let cost = |translated: Translated| match &translated.events[..] {
        [.., RawEvent::UsageUpdate(update), _] | [RawEvent::UsageUpdate(update)] => {
            (update.cost_usd.clone(), update.token_usage.input_tokens)
        }
        other => panic!("{other:?}"),
    };
    translator.line(&says("a"));
    assert_eq!(cost(translator.line(&result(0.5, 100))), ("0.5".into(), 100));
    assert_eq!(cost(translator.line(&result(0.25, 120))), ("0.5".into(), 120));
    assert_eq!(cost(translator.line(&result(0.75, 110))), ("0.75".into(), 120));
}

#[test]
fn model_totals_are_separate_and_the_window_is_the_main_loops() {
    let mut translator = translator();
    translator.line(&says("a"));
    let result = json!({"type": "result", "subtype": "success", "is_error": false, "session_id": "s",
        "total_cost_usd": 0.3, "modelUsage": {
            "m": {"inputTokens": 1, "outputTokens": 2, "costUSD": 0.1, "contextWindow": 1_000_000},
            "h": {"inputTokens": 3, "outputTokens": 4, "costUSD": 0.2, "contextWindow": 200_000}}});
    let translated = translator.line(&result);
    let by_model: Vec<_> = translated
        .events
        .iter()
        .filter_map(|event| match event {
            RawEvent::UsageUpdate(u) => Some((
                u.model_id.as_str(),
                u.cost_usd.as_str(),
                u.context_window.map(|w| w.model_context_limit),
            )),
            _ => None,
        })
        .collect();
    assert_eq!(by_model, [("m", "0.1", Some(1_000_000)), ("h", "0.2", None)]);
}

#[test]
fn subagent_usage_does_not_fill_the_main_context() {
    let mut translator = translator();
    translator.line(&says("a"));
    let mut line = says("sub");
    line["parent_tool_use_id"] = json!("call");
    line["message"]["usage"]["input_tokens"] = json!(150_000);
    assert_eq!(names(&translator.line(&line)), ["subagent_started", "subagent_message"]);
}

// Content

#[test]
fn todo_write_passes_only_as_a_tool_use() {
    let mut translator = translator();
    let todos = json!({"todos": [{"content": "A", "status": "pending", "activeForm": "Doing A"}]});
    let translated = translator.line(&calls("t", "TodoWrite", &todos));
    assert_eq!(names(&translated), ["turn_started", "assistant_message"]);
    let result =
        translator.line(&answers("t", &json!("ok"), &json!({"oldTodos": [], "newTodos": todos["todos"]})));
    assert_eq!(names(&result), ["tool_result"]);
}

#[test]
fn task_whose_creation_failed_is_on_no_list() {
    let mut translator = translator();
    translator.line(&calls("t", "TaskCreate", &json!({"subject": "A"})));
    let mut failed = answers("t", &json!("Task #1 was refused"), &Value::Null);
    failed["message"]["content"][0]["is_error"] = json!(true);
    assert_eq!(names(&translator.line(&failed)), ["tool_result"]);
}

#[test]
fn result_with_more_than_text_stays_unchanged() {
    let mut translator = translator();
    let blocks =
        json!([{"type": "text", "text": "a picture"}, {"type": "image", "source": {"data": "AA=="}}]);
    let translated = translator.line(&answers("t", &blocks, &Value::Null));
    assert!(
        matches!(&translated.events[..], [RawEvent::ToolResult { content: Content::Json(json), .. }] if *json == blocks)
    );
}

#[test]
fn unreadable_or_empty_line_has_a_reason() {
    let mut translator = translator();
    translator.line(&init());
    let mut line = says("x");
    line["message"]["usage"] = Value::Null;
    line["message"]["content"] = json!([{"type": "redacted_thinking", "data": "AA"}]);
    assert_eq!(translator.line(&line).ignored, Some(Ignored::RedactedThinking));
    line["message"]["content"] = json!([{"type": "thinking", "thinking": "", "signature": "AA"}]);
    assert_eq!(translator.line(&line).ignored, Some(Ignored::EmptyMessage));
    for content in [json!([{"type": "text", "text": ""}]), json!("")] {
        line["message"]["content"] = content;
        assert_eq!(translator.line(&line).ignored, Some(Ignored::EmptyMessage), "{line}");
    }
    assert_eq!(translator.line(&init()).ignored, Some(Ignored::RepeatedInit));
}

#[test]
fn error_beside_real_content_keeps_both() {
    let mut translator = translator();
    let mut line = says("half an answer");
    line["error"] = json!("max_output_tokens");
    let translated = translator.line(&line);
    assert_eq!(names(&translated), ["turn_started", "assistant_message", "notice", "usage_update"]);
    assert!(matches!(&translated.events[1],
        RawEvent::AssistantMessage { content: AssistantContent::Text { text }, .. } if text.text() == "half an answer"));
}

// What this version does not know

#[test]
fn unknown_messages_are_kept() {
    let named = |line: Value| {
        let translated = translator().line(&line);
        assert_eq!(translated.ignored, None);
        match &translated.events[..] {
            [RawEvent::Notice { name, detail, .. }] => {
                assert!(detail.is_some());
                name.clone()
            }
            other => panic!("{line}: {other:?}"),
        }
    };
    assert_eq!(named(json!({"type": "telepathy", "x": 1})), "unknown_telepathy");
    assert_eq!(named(json!({"type": "system", "subtype": "weather"})), "unknown_system_weather");
    assert_eq!(named(json!({"type": "system"})), "unknown_system");
    assert_eq!(named(json!({"no": "type"})), "unknown_line");
    assert_eq!(named(json!(["not", "an", "object"])), "unknown_line");
    assert_eq!(
        named(json!({"type": "control_request", "request": {"subtype": "dance"}})),
        "unknown_control_request_dance"
    );
    assert_eq!(named(json!({"type": "command_lifecycle", "state": "lost"})), "unknown_command_lifecycle");
    assert_eq!(named(json!({"type": "assistant"})), "unknown_assistant");
    assert_eq!(
        named(json!({"type": "user", "message": {"content": [{"type": "hologram"}]}})),
        "unknown_block_hologram"
    );
    assert_eq!(
        named(json!({"type": "user", "message": {"content": [{"type": "tool_result", "content": "no id"}]}})),
        "unknown_tool_result"
    );
    assert_eq!(named(json!({"type": "../evil\nname"})), "unknown____evil_name");
}

// Messages of the adapter that open a turn

#[test]
fn known_opening_message_names_the_turn() {
    let mut translator = translator();
    let message: pilothouse_domain::MessageId = "6e8f37c9-1091-4f00-8951-e55b19700675".parse().unwrap();
    translator.opens_turn(message);
    let begun = translator.line(&init());
    assert!(
        matches!(&begun.events[..], [RawEvent::TurnStarted { message_id: Some(id), .. }] if *id == message)
    );
    translator.opens_turn(message);
    translator.line(&success());
    let next = translator.line(&init());
    assert!(
        matches!(&next.events[..], [RawEvent::TurnStarted { message_id: None, .. }]),
        "it entered the turn before"
    );
}

#[test]
fn repeated_message_confirms_its_delivery() {
    let uuid = "6e8f37c9-1091-4f00-8951-e55b19700675";
    let repeated = translator()
        .line(&json!({"type": "user", "isReplay": true, "uuid": uuid, "session_id": "s",
        "parent_tool_use_id": null, "message": {"role": "user", "content": "hello"}}));
    assert_eq!(repeated.ignored, Some(Ignored::Replay));
    assert_eq!(repeated.signals, [Signal::Message { uuid: uuid.into(), state: MessageState::Started }]);
}

/// Output of Claude Code 2.1.197 with a subscription, when the provider responds with 429 and these fields in the
/// headers `anthropic-ratelimit-unified-*`. Recorded with a scripted model.
#[allow(clippy::needless_pass_by_value)] // reads better at the call
fn rejected(info: serde_json::Value) -> serde_json::Value {
    json!({"type": "rate_limit_event", "rate_limit_info": info, "uuid": "9a9d4ed9-db46-4ae8-8bea-f00ce1ff6e0f", "session_id": "s"})
}

fn refused(words: &str) -> [serde_json::Value; 2] {
    let synthetic = json!({"type": "assistant", "message": {"id": "3a6887cb", "model": "<synthetic>", "role": "assistant",
        "stop_reason": "stop_sequence", "type": "message", "usage": {"input_tokens": 0, "output_tokens": 0},
        "content": [{"type": "text", "text": words}]}, "parent_tool_use_id": null, "session_id": "s", "error": "rate_limit"});
    let result = json!({"type": "result", "subtype": "success", "is_error": true, "api_error_status": 429, "num_turns": 2,
        "result": words, "stop_reason": "stop_sequence", "session_id": "s", "total_cost_usd": 0, "modelUsage": {},
        "permission_denials": [], "terminal_reason": "completed"});
    [synthetic, result]
}

#[test]
fn exhausted_plan_keeps_the_turn_open_until_resumed() {
    let words = "You've hit your session limit · resets 4:42pm (UTC)";
    let [synthetic, result] = refused(words);
    let mut translator = translator();
    translator.line(&says("a"));
    let used_up =
        rejected(json!({"status": "rejected", "resetsAt": 1_795_365_775, "rateLimitType": "five_hour",
        "overageStatus": "rejected", "overageDisabledReason": "out_of_credits", "isUsingOverage": false}));
    assert_eq!(names(&translator.line(&used_up)), ["notice"]);
    // A premature continuation reports the quota again, although the runtime does not repeat its rate limit.
    for _ in 0..2 {
        assert_eq!(names(&translator.line(&synthetic)), ["notice"]);
        let stopped = translator.line(&result);
        let Some(RawEvent::QuotaExceeded { message, reset_at }) = stopped.events.last() else {
            panic!("{stopped:?}")
        };
        assert_eq!(message.as_deref(), Some(words));
        assert_eq!(reset_at.unwrap().as_secs(), 1_795_365_775);
        assert_eq!(stopped.signals, [Signal::WaitsForModel]);
        assert!(translator.turn_id().is_some());
    }
    translator.line(&rejected(
        json!({"status": "allowed", "resetsAt": 1_795_365_775, "rateLimitType": "five_hour"}),
    ));
    translator.line(&says("b"));
    assert_eq!(names(&translator.line(&success())), ["turn_completed"]);
    translator.line(&says("c"));
    assert_eq!(names(&translator.line(&result)), ["model_unavailable"], "the limit was lifted");
}

#[test]
fn temporary_provider_refusal_is_not_an_exhausted_plan() {
    let words = "API Error: Server is temporarily limiting requests (not your usage limit)";
    let mut translator = translator();
    translator.line(&says("a"));
    translator.line(&rejected(json!({"status": "rejected", "isUsingOverage": false})));
    let [_, result] = refused(words);
    assert_eq!(names(&translator.line(&result)), ["model_unavailable"]);
}

#[test]
fn rate_limit_of_a_key_keeps_the_turn_open() {
    let mut translator = translator();
    translator.line(&says("a"));
    let [_, result] = refused("API Error: Request rejected (429)");
    let lost = translator.line(&result);
    assert_eq!((names(&lost), &lost.signals[..]), (vec!["model_unavailable"], &[Signal::WaitsForModel][..]));
    assert!(translator.turn_id().is_some());
    translator.line(&says("b"));
    assert_eq!(names(&translator.line(&success())), ["turn_completed"]);
}

#[test]
fn compaction_between_turns_is_no_turn_and_reports_failures() {
    let mut translator = translator();
    translator.compacts();
    assert_eq!(names(&translator.line(&init())), [""; 0]);
    let done = translator.line(&success());
    assert_eq!((names(&done), done.signals), (vec![], vec![Signal::Compacted(None)]));
    translator.compacts();
    translator.line(&json!({"type": "system", "subtype": "status", "status": null, "session_id": "s",
        "compact_result": "failed", "compact_error": "Not enough messages to compact."}));
    let failed = translator.line(&success());
    assert!(
        matches!(&failed.signals[..], [Signal::Compacted(Some(why))] if why.contains("Not enough messages"))
    );
    assert_eq!(names(&translator.line(&init())), ["turn_started"], "the next prompt is a turn");
}

#[test]
fn refused_prompt_and_process_exit_complete_no_compaction() {
    let mut translator = translator();
    translator.compacts();
    translator.refuses_prompt();
    assert_eq!(translator.line(&success()).signals, [], "the prompt was processed first");
    assert_eq!(translator.line(&success()).signals, [Signal::Compacted(None)]);
    translator.compacts();
    translator.process_ended();
    assert_eq!(names(&translator.line(&init())), ["turn_started"], "the next process does not compact");
}

/// A process that resumes a conversation may count from zero or continue the count (decision 31).
#[test]
fn totals_continue_whatever_base_a_new_process_uses() {
    let spent = |usd: f64| json!({"m": {"inputTokens": 100, "outputTokens": 10, "costUSD": usd}});
    for (begins_at, reports, total) in [(0.0, 0.25, "0.75"), (0.5, 0.75, "0.75")] {
        let mut translator = translator();
        translator.line(&says("a"));
        let mut result = success();
        result["modelUsage"] = spent(0.5);
        translator.line(&result);
        let begins = if begins_at == 0.0 { json!({}) } else { spent(begins_at) };
        translator.process_begins(&json!({"model_usage": begins}));
        translator.line(&says("b"));
        let events = translator.usage(&json!({"model_usage": spent(reports)}));
        let [RawEvent::UsageUpdate(update)] = &events[..] else { panic!("{events:?}") };
        assert_eq!(update.cost_usd, total);
        assert_eq!(translator.usage(&json!({"model_usage": spent(reports)})), [], "nothing new");
    }
}

#[test]
fn abandoned_turn_ends_as_interrupted() {
    let mut translator = translator();
    translator.line(&init());
    let events = translator.abandon_turn();
    assert_eq!(events.iter().map(RawEvent::name).collect::<Vec<_>>(), ["notice"]);
    assert!(translator.turn_id().is_none());
    assert_eq!(translator.abandon_turn(), []);
}

#[test]
fn request_too_long_for_the_runtime_exhausts_the_context() {
    let mut translator = translator();
    translator.line(&says("a"));
    let failed = translator
        .line(&json!({"type": "result", "subtype": "success", "is_error": true, "session_id": "s",
        "terminal_reason": "blocking_limit", "result": "Context limit reached"}));
    assert_eq!(names(&failed), ["context_exhausted", "session_end"]);
}

/// Output of Claude Code 2.1.197 with a scripted model: the response to `stop_task`, the subagent's last text, and
/// its report, which a hook refuses.
#[test]
fn interrupt_of_the_last_subagent_interrupts_the_turn() {
    let killed = json!({"type": "system", "subtype": "task_updated", "task_id": "a1", "session_id": "s",
        "patch": {"status": "killed", "end_time": 1_795_362_690_723_i64}});
    let last_words = json!({"type": "user", "message": {"role": "user", "content": [
        {"type": "text", "text": "[Request interrupted by user]"}]}, "parent_tool_use_id": "call", "session_id": "s",
        "subagent_type": "general-purpose", "task_description": "Look"});
    let notified = json!({"type": "system", "subtype": "task_notification", "task_id": "a1", "tool_use_id": "call",
        "status": "stopped", "output_file": "a1.output", "summary": "Agent \"Look\" was stopped by user", "session_id": "s"});
    for result_is_late in [false, true] {
        let mut translator = translator();
        translator.line(&calls("call", "Task", &json!({"prompt": "look", "run_in_background": true})));
        translator.line(&task_started(false));
        translator.line(&json!({"type": "user", "parent_tool_use_id": null, "session_id": "s",
            "tool_use_result": {"status": "async_launched"}, "message": {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "call", "content": "Async agent launched successfully."}]}}));
        if result_is_late {
            translator.interrupt_requested();
            assert_eq!(names(&translator.line(&success())), [""; 0]);
        } else {
            translator.line(&success());
            translator.interrupt_requested();
        }
        let ended = translator.line(&killed);
        assert_eq!(names(&ended), ["subagent_ended", "notice"], "{result_is_late}");
        assert_eq!(ended.signals, [Signal::TurnEnded(TurnEnd::Interrupted)]);
        translator.interrupt_over();
        assert_eq!(names(&translator.line(&last_words)), [""; 0]);
        assert_eq!(names(&translator.line(&notified)), [""; 0]);
        translator.refuses_prompt();
        assert_eq!(names(&translator.line(&init())), [""; 0]);
        let refused = translator.line(&success());
        assert_eq!((names(&refused), translator.turn_id()), (vec![], None));
        assert_eq!(names(&translator.line(&init())), ["turn_started"], "the owner speaks");
    }
}
