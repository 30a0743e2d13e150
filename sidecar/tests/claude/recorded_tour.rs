//! The full tour: all messages of a well-behaved run, in both forms of the protocol.

use std::collections::BTreeMap;

use pilothouse_domain::TurnId;
use pilothouse_domain::value::{DraftKind, Question, SessionTaskStatus, TokenUsage};
use pilothouse_sidecar::kit::claude_stream::{Ignored, MessageState, Signal, TurnEnd};
use pilothouse_wire::event::{AssistantContent, Content, RawEvent};
use serde_json::{Value, json};

use crate::support::{SDK_TOUR, STDIO_TOUR, STDIO_TOUR_INPUT, raw, raw_text, tour};

/// Every content block of the recorded lines of `kind`, with its line.
fn blocks<'a>(lines: &'a [Value], kind: &'a str) -> impl Iterator<Item = (&'a Value, &'a Value)> {
    lines.iter().filter(move |line| line["type"] == kind).flat_map(|line| {
        line["message"]["content"].as_array().into_iter().flatten().map(move |block| (line, block))
    })
}

#[test]
fn both_protocol_formats_produce_the_same_events() {
    let sdk = tour(SDK_TOUR);
    let stdio = tour(STDIO_TOUR);
    assert!(sdk.events.len() > 60);
    assert_eq!(sdk.events, stdio.events);
    assert_eq!(sdk.signals, stdio.signals);
}

#[test]
fn drafts_are_the_beginnings_of_the_texts_that_follow() {
    let run = tour(SDK_TOUR);
    let written = |wanted| -> String {
        run.drafts.iter().filter(|(kind, _)| *kind == wanted).map(|(_, text)| text.as_str()).collect()
    };
    let (mut texts, mut thoughts) = (String::new(), String::new());
    for event in &run.events {
        match event {
            RawEvent::AssistantMessage { content: AssistantContent::Text { text }, .. } => {
                texts.push_str(&text.text());
            }
            RawEvent::AssistantMessage { content: AssistantContent::Thinking { text }, .. } => {
                thoughts.push_str(&text.text());
            }
            _ => {}
        }
    }
    assert_eq!((written(DraftKind::Text), written(DraftKind::Thinking)), (texts, thoughts));
    assert!(run.drafts.len() > 20, "{}", run.drafts.len());
}

#[test]
fn every_line_of_the_sdk_format_is_accounted_for() {
    let run = tour(SDK_TOUR);
    let lines = raw(SDK_TOUR);
    let of = |kind: &str| lines.iter().filter(|line| line["type"] == kind).count();
    let expected = BTreeMap::from([
        // All pieces except for the ends of the main loop's 11 messages, which report usage.
        (Ignored::PartialMessage, of("stream_event") - 11),
        // 13 lines, of which two change the permission mode.
        (Ignored::StatusPing, 11),
        (Ignored::ThinkingTokens, 2),
        (Ignored::SubagentPrompt, 1),
        (Ignored::SubagentProgress, 1),
        (Ignored::SubagentAlreadyEnded, 1),
        (Ignored::CommandLifecycle, 3),
    ]);
    assert_eq!(run.ignored, expected);
    assert_eq!(run.translated + run.ignored.values().sum::<usize>(), lines.len());
    assert_eq!(run.notices().iter().filter(|(name, _)| name.starts_with("unknown")).count(), 0);
}

#[test]
fn every_line_of_the_stdio_format_is_accounted_for() {
    let run = tour(STDIO_TOUR);
    let lines = raw(STDIO_TOUR);
    let requests = |subtype: &str| lines.iter().filter(|line| line["request"]["subtype"] == subtype).count();
    assert_eq!(run.ignored[&Ignored::HookCallback], requests("hook_callback"));
    assert_eq!(run.ignored[&Ignored::PermissionRequest], requests("can_use_tool"));
    assert_eq!(run.ignored[&Ignored::McpMessage], requests("mcp_message"));
    assert_eq!(run.ignored[&Ignored::ControlResponse], 2);
    assert_eq!(run.ignored[&Ignored::SessionStateChanged], 14);
    assert_eq!((requests("hook_callback"), requests("can_use_tool"), requests("mcp_message")), (55, 6, 2));
    // The remaining lines match the SDK form.
    let own = [
        Ignored::HookCallback,
        Ignored::PermissionRequest,
        Ignored::McpMessage,
        Ignored::ControlResponse,
        Ignored::SessionStateChanged,
    ];
    let shared: BTreeMap<_, _> = run.ignored.iter().filter(|(reason, _)| !own.contains(reason)).collect();
    assert_eq!(shared, tour(SDK_TOUR).ignored.iter().collect());
    assert_eq!(run.translated + run.ignored.values().sum::<usize>(), lines.len());
    assert_eq!(run.notices().iter().filter(|(name, _)| name.starts_with("unknown")).count(), 0);
}

#[test]
fn agent_blocks_are_emitted_in_order_with_their_turn() {
    let lines = raw(SDK_TOUR);
    let expected: Vec<Value> = blocks(&lines, "assistant")
        .filter(|(line, _)| line["parent_tool_use_id"].is_null())
        .map(|(_, block)| match block["type"].as_str().unwrap() {
            "text" => json!({"kind": "text", "text": block["text"]}),
            "thinking" => json!({"kind": "thinking", "text": block["thinking"]}),
            "tool_use" => json!({
                "kind": "tool_use", "toolCallId": block["id"], "toolName": block["name"], "input": block["input"]}),
            other => panic!("unexpected block {other}"),
        })
        .collect();
    assert_eq!(expected.len(), 24);
    let run = tour(SDK_TOUR);
    let translated: Vec<Value> =
        run.main_content().into_iter().map(|content| serde_json::to_value(content).unwrap()).collect();
    assert_eq!(translated, expected);
    let turn = TurnId::parse("run.1").unwrap();
    for event in &run.events {
        if let RawEvent::AssistantMessage { turn_id, .. } = event {
            assert_eq!(turn_id.as_ref(), Some(&turn));
        }
    }
    assert_eq!(
        run.texts(),
        [
            "I will list files.",
            "Tracking tasks.",
            "Spawning a subagent.",
            "Asking.",
            "Plan.",
            "Exit plan.",
            "Writing.",
            "All done."
        ]
    );
    assert_eq!(run.main_content()[0], &AssistantContent::Thinking { text: "Let me look.".into() });
}

#[test]
fn every_call_has_its_result_with_text_and_error_flag() {
    let lines = raw(SDK_TOUR);
    let expected: Vec<(String, String, bool)> = blocks(&lines, "user")
        .filter(|(_, block)| block["type"] == "tool_result")
        .map(|(_, block)| {
            let text = match &block["content"] {
                Value::String(text) => text.clone(),
                // All lists of this recording contain one text block.
                list => list[0]["text"].as_str().unwrap().to_owned(),
            };
            (block["tool_use_id"].as_str().unwrap().to_owned(), text, block["is_error"] == true)
        })
        .collect();
    assert_eq!(expected.len(), 16);
    assert_eq!(expected.iter().filter(|(_, _, is_error)| *is_error).count(), 1);
    let run = tour(SDK_TOUR);
    let translated: Vec<_> = run
        .events
        .iter()
        .filter_map(|event| match event {
            RawEvent::ToolResult { tool_call_id, content: Content::Text(text), is_error, .. } => {
                Some((tool_call_id.to_string(), text.clone(), *is_error))
            }
            _ => None,
        })
        .collect();
    assert_eq!(translated, expected);

    let mut called: Vec<String> = blocks(&lines, "assistant")
        .filter(|(_, block)| block["type"] == "tool_use")
        .map(|(_, block)| block["id"].as_str().unwrap().to_owned())
        .collect();
    let mut answered: Vec<String> = translated.into_iter().map(|(id, _, _)| id).collect();
    called.sort();
    answered.sort();
    assert_eq!(called, answered);
}

#[test]
fn subagent_is_reported_from_start_to_end() {
    let id = "a6bc2af423256973e";
    let run = tour(SDK_TOUR);
    let of_subagent: Vec<Value> = run
        .events
        .iter()
        .map(|event| serde_json::to_value(event).unwrap())
        .filter(|event| event["subagentId"] == id)
        .collect();
    let prompt =
        raw(SDK_TOUR).iter().find(|line| line["subtype"] == "task_started").unwrap()["prompt"].clone();
    assert_eq!(
        of_subagent,
        [
            json!({"type": "subagent_started", "subagentId": id, "toolCallId": "toolu_15c2067e97e524",
                "objective": prompt}),
            json!({"type": "subagent_message", "subagentId": id, "content": {"kind": "text", "text": "sub reading"}}),
            json!({"type": "subagent_message", "subagentId": id, "content": {"kind": "tool_use",
                "toolCallId": "toolu_57523df0818128", "toolName": "Read",
                "input": {"file_path": "/workspace/project/a.txt"}}}),
            json!({"type": "tool_result", "toolCallId": "toolu_57523df0818128", "subagentId": id,
                "content": "1\thello world\n2\t", "isError": false}),
            json!({"type": "subagent_message", "subagentId": id,
                "content": {"kind": "text", "text": "Subagent finished: a.txt says hello."}}),
            json!({"type": "subagent_ended", "subagentId": id}),
        ]
    );
    assert_eq!(run.names().iter().filter(|name| **name == "subagent_started").count(), 1);
}

#[test]
fn task_tools_produce_complete_snapshots() {
    let run = tour(SDK_TOUR);
    let snapshots: Vec<Vec<_>> = run
        .events
        .iter()
        .filter_map(|event| match event {
            RawEvent::TaskList { tasks } => Some(
                tasks
                    .iter()
                    .map(|task| {
                        (task.id.as_str(), task.subject.as_str(), task.status, task.active_form.as_deref())
                    })
                    .collect(),
            ),
            _ => None,
        })
        .collect();
    let first = |status| ("1", "First task", status, Some("Doing one"));
    let second = ("2", "Second task", SessionTaskStatus::Pending, Some("Doing two"));
    assert_eq!(
        snapshots,
        [
            vec![first(SessionTaskStatus::Pending)],
            vec![first(SessionTaskStatus::Pending), second],
            // The listing that ran concurrently with the update still said `pending`. The update counts.
            vec![first(SessionTaskStatus::InProgress), second],
        ]
    );
}

#[test]
fn question_keeps_its_options_and_the_answer_of_the_user() {
    let run = tour(SDK_TOUR);
    let input = run
        .main_content()
        .into_iter()
        .find_map(|content| match content {
            AssistantContent::ToolUse { tool_name, input, tool_call_id }
                if tool_name == "AskUserQuestion" =>
            {
                assert_eq!(tool_call_id.as_str(), "toolu_471693de349935");
                Some(input)
            }
            _ => None,
        })
        .unwrap();
    let questions: Vec<Question> = serde_json::from_value(input["questions"].clone()).unwrap();
    assert_eq!(questions.len(), 1);
    assert_eq!(questions[0].question, "Which colour?");
    assert_eq!(questions[0].header.as_deref(), Some("Colour"));
    assert!(!questions[0].multi_select);
    let options: Vec<_> =
        questions[0].options.iter().map(|o| (o.label.as_str(), o.description.as_deref().unwrap())).collect();
    assert_eq!(options, [("Red", "r"), ("Blue", "b")]);

    let answered = raw(STDIO_TOUR_INPUT)
        .iter()
        .map(|line| line["response"]["response"].clone())
        .find(|response| response["toolUseID"] == "toolu_471693de349935")
        .unwrap();
    let answer = answered["updatedInput"]["answers"]["Which colour?"].as_str().unwrap().to_owned();
    let result = run
        .events
        .iter()
        .find_map(|event| match event {
            RawEvent::ToolResult { tool_call_id, content, .. }
                if tool_call_id.as_str() == "toolu_471693de349935" =>
            {
                Some(content.text().into_owned())
            }
            _ => None,
        })
        .unwrap();
    assert!(result.contains(&format!("\"Which colour?\"=\"{answer}\"")), "{result}");
}

#[test]
fn plan_is_a_tool_use_between_two_mode_changes() {
    let run = tour(SDK_TOUR);
    let plan = run.main_content().into_iter().find_map(|content| match content {
        AssistantContent::ToolUse { tool_name, input, .. } if tool_name == "ExitPlanMode" => {
            Some(input.clone())
        }
        _ => None,
    });
    assert_eq!(plan, Some(json!({"plan": "1. write c.txt\n2. done"})));
    assert_eq!(
        run.notices_named("permission_mode"),
        ["The agent's permission mode is now plan", "The agent's permission mode is now default"]
    );
}

#[test]
fn denial_reported_twice_is_emitted_once() {
    let result = raw(SDK_TOUR).pop().unwrap();
    assert_eq!(result["permission_denials"][0]["tool_use_id"], "toolu_35f42504310b48");
    assert_eq!(
        tour(SDK_TOUR).notices_named("permission_denied"),
        ["Bash was not allowed: operator denied rm"]
    );
}

#[test]
fn totals_match_the_results_exactly() {
    // The literal of the file, without the rounding of a number parser.
    let text = raw_text(SDK_TOUR);
    let literal = text.split("\"total_cost_usd\":").nth(1).unwrap().split(',').next().unwrap().trim();
    assert_eq!(literal, "0.084861");
    let result = raw(SDK_TOUR).pop().unwrap();
    let totals = &result["modelUsage"]["claude-sonnet-4-5"];

    let run = tour(SDK_TOUR);
    let last = *run.usage().last().unwrap();
    assert_eq!(last.cost_usd, literal);
    assert_eq!(last.model_id, "claude-sonnet-4-5");
    assert_eq!(last.meter_id.as_str(), result["session_id"].as_str().unwrap());
    assert_eq!(
        serde_json::to_value(last.token_usage).unwrap(),
        json!({
            "inputTokens": totals["inputTokens"], "outputTokens": totals["outputTokens"],
            "cacheReadTokens": totals["cacheReadInputTokens"],
            "cacheWriteTokens": totals["cacheCreationInputTokens"]})
    );
    assert_eq!(last.token_usage.total(), 24697 + 608 + 3000 + 200);
}

#[test]
fn the_context_window_follows_each_message_of_the_main_loop() {
    let lines = raw(SDK_TOUR);
    // For each message: the values at its start, with the output tokens from its end.
    let mut expected = Vec::new();
    let mut start = Value::Null;
    for line in
        lines.iter().filter(|line| line["type"] == "stream_event" && line["parent_tool_use_id"].is_null())
    {
        match line["event"]["type"].as_str().unwrap() {
            "message_start" => start = line["event"]["message"]["usage"].clone(),
            "message_delta" => {
                let number = |value: &Value| value.as_u64().unwrap();
                expected.push(TokenUsage {
                    input_tokens: number(&start["input_tokens"]),
                    output_tokens: number(&line["event"]["usage"]["output_tokens"]),
                    cache_read_tokens: number(&start["cache_read_input_tokens"]),
                    cache_write_tokens: number(&start["cache_creation_input_tokens"]),
                });
            }
            _ => {}
        }
    }
    assert_eq!(expected.len(), 11);
    let run = tour(SDK_TOUR);
    let windows: Vec<_> = run.usage().into_iter().map(|update| update.context_window.unwrap()).collect();
    // The result repeats the last one, together with its totals.
    expected.push(*expected.last().unwrap());
    assert_eq!(windows.iter().map(|window| window.usage).collect::<Vec<_>>(), expected);
    assert!(windows.iter().all(|window| window.model_context_limit == 200_000));
    assert_eq!(windows.last().unwrap().usage.total(), 5000 + 300 + 3000 + 200);
}

#[test]
fn tour_is_one_turn_and_keeps_the_conversation_open() {
    let run = tour(SDK_TOUR);
    let turn_id = TurnId::parse("run.1").unwrap();
    assert_eq!(
        run.events.first(),
        Some(&RawEvent::TurnStarted { turn_id: turn_id.clone(), message_id: None })
    );
    assert_eq!(
        run.events.last(),
        Some(&RawEvent::TurnCompleted {
            turn_id,
            output: None,
            outcome: pilothouse_domain::value::SessionOutcome::Completed
        })
    );
    let count = |wanted: &str| run.names().iter().filter(|name| **name == wanted).count();
    assert_eq!((count("turn_started"), count("turn_completed"), count("session_end")), (1, 1, 0));
}

#[test]
fn steering_message_is_tracked_by_its_adapter_id() {
    let steering = raw(STDIO_TOUR_INPUT)
        .into_iter()
        .find(|line| line["message"]["content"].as_str().is_some_and(|text| text.starts_with("STEERING")))
        .unwrap();
    let uuid = steering["uuid"].as_str().unwrap().to_owned();
    let message = |state| Signal::Message { uuid: uuid.clone(), state };
    assert_eq!(
        tour(STDIO_TOUR).signals,
        [
            message(MessageState::Queued),
            message(MessageState::Started),
            message(MessageState::Completed),
            Signal::TurnEnded(TurnEnd::Completed)
        ]
    );
}
