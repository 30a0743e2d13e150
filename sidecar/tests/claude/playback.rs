//! Recorded runs as steps with a person in the loop.

use std::time::Duration;

use pilothouse_domain::ToolCallId;
use pilothouse_sidecar::kit::claude_stream::{PlaybackOptions, PlaybackStep, Recording};
use pilothouse_wire::event::RawEvent;
use serde_json::{Value, json};

use crate::support::{ERRORS, SDK_TOUR, STDIO_TOUR, load, options, raw, tour};

fn steps(file: &str) -> Vec<PlaybackStep> {
    load(file).segments()[0].playback(PlaybackOptions::new(options()))
}

/// Event names and waits for people, without times.
fn outline(steps: &[PlaybackStep]) -> Vec<String> {
    steps
        .iter()
        .flat_map(|step| match step {
            PlaybackStep::Emit(events) => events.iter().map(|event| event.name().to_owned()).collect(),
            PlaybackStep::Wait(_) => Vec::new(),
            PlaybackStep::AwaitAnswer { tool_call_id } => vec![format!("answer {tool_call_id}")],
            PlaybackStep::AwaitPlanDecision { tool_call_id } => vec![format!("plan {tool_call_id}")],
            PlaybackStep::AwaitMessage => vec!["message".to_owned()],
        })
        .collect()
}

#[test]
fn a_playback_emits_exactly_the_translated_events() {
    for file in [SDK_TOUR, STDIO_TOUR] {
        let emitted: Vec<RawEvent> = steps(file)
            .into_iter()
            .filter_map(|step| if let PlaybackStep::Emit(events) = step { Some(events) } else { None })
            .flatten()
            .collect();
        assert_eq!(emitted, tour(file).events);
    }
}

#[test]
fn playback_waits_for_recorded_answers_decisions_and_messages() {
    let outline = outline(&steps(SDK_TOUR));
    let at = |wanted: &str| outline.iter().position(|step| step == wanted).unwrap();

    let answer = at("answer toolu_471693de349935");
    assert_eq!(
        outline[answer - 2..=answer + 1],
        ["assistant_message", "usage_update", &outline[answer], "tool_result"]
    );

    // The decision changes the mode, so the change follows it.
    let plan = at("plan toolu_07c75b932db943");
    assert_eq!(
        outline[plan - 2..=plan + 2],
        ["assistant_message", "usage_update", &outline[plan], "notice", "tool_result"]
    );

    // The steering message was sent while the last tool was running.
    let message = at("message");
    assert_eq!(
        outline[message - 2..=message + 1],
        ["assistant_message", "usage_update", "message", "tool_result"]
    );

    assert!(answer < plan && plan < message);
    let waits = outline.iter().filter(|s| s.contains(' ') || *s == "message").count();
    assert_eq!(waits, 3);
}

#[test]
fn both_formats_play_alike() {
    let people = |file| {
        let mut steps = steps(file);
        steps.retain(|step| !matches!(step, PlaybackStep::Wait(_)));
        steps
    };
    assert_eq!(people(SDK_TOUR), people(STDIO_TOUR));
}

#[test]
fn recorded_time_is_capped_and_human_time_is_skipped() {
    let waited = |longest| {
        let options = PlaybackOptions { longest_wait: longest, ..PlaybackOptions::new(options()) };
        let steps = load(SDK_TOUR).segments()[0].playback(options);
        for pair in steps.windows(2) {
            let awaits = |step: &PlaybackStep| !matches!(step, PlaybackStep::Emit(_) | PlaybackStep::Wait(_));
            assert!(!(matches!(pair[0], PlaybackStep::Wait(_)) && awaits(&pair[1])), "{pair:?}");
            assert!(!pair.iter().all(|step| matches!(step, PlaybackStep::Wait(_))), "{pair:?}");
        }
        let waits =
            steps.into_iter().filter_map(|s| if let PlaybackStep::Wait(d) = s { Some(d) } else { None });
        waits.collect::<Vec<_>>()
    };
    let full = waited(Duration::from_mins(1));
    // `sleep 2` is part of it. The total is the range of the timestamps (35.559 to 39.698) without the two answers
    // (37.198 to 37.219 and 37.380 to 37.395).
    assert_eq!(full.iter().max(), Some(&Duration::from_millis(2039)));
    assert_eq!(full.iter().sum::<Duration>(), Duration::from_millis(4139 - 21 - 15));
    let capped = waited(Duration::from_millis(100));
    assert_eq!(capped.len(), full.len());
    assert_eq!(capped.iter().max(), Some(&Duration::from_millis(100)));
    assert_eq!(waited(Duration::ZERO), [Duration::ZERO; 0]);
}

#[test]
fn named_run_of_a_recording_can_be_played() {
    let recording = load(ERRORS);
    let outlined =
        |name: &str| outline(&recording.segment(name).unwrap().playback(PlaybackOptions::new(options())));
    assert_eq!(outlined("maxBudgetUsd 0.05").last().unwrap(), "turn_completed");
    assert_eq!(outlined("401").last().unwrap(), "session_end");
    // A resumed conversation reports no total below its initial one.
    assert_eq!(
        outlined("resume step2"),
        ["turn_started", "assistant_message", "usage_update", "turn_completed"]
    );
}

#[test]
fn a_second_turn_waits_for_the_message_that_begins_it() {
    let turn = |n: u32| {
        [
            json!({"type": "system", "subtype": "init", "model": "m", "session_id": "s"}).to_string(),
            json!({"type": "assistant", "parent_tool_use_id": null, "session_id": "s",
                "message": {"id": n.to_string(), "model": "m", "content": [{"type": "text", "text": "hi"}]}})
            .to_string(),
            json!({"type": "result", "subtype": "success", "is_error": false, "session_id": "s"}).to_string(),
        ]
        .join("\n")
    };
    let recording = Recording::parse(&format!("{}\n{}\n", turn(1), turn(2))).unwrap();
    let steps = recording.segments()[0].playback(PlaybackOptions::new(options()));
    assert_eq!(
        outline(&steps),
        [
            "turn_started",
            "assistant_message",
            "turn_completed",
            "message",
            "turn_started",
            "assistant_message",
            "turn_completed"
        ]
    );
}

#[test]
fn unanswered_recorded_question_is_not_awaited() {
    let lines = [
        json!({"type": "assistant", "parent_tool_use_id": null, "session_id": "s", "message": {"id": "1",
            "content": [{"type": "tool_use", "id": "t", "name": "AskUserQuestion", "input": {}}]}}),
        json!({"type": "result", "subtype": "error_during_execution", "is_error": true, "session_id": "s"}),
    ];
    let text = lines.map(|line| line.to_string()).join("\n");
    let steps = Recording::parse(&text).unwrap().segments()[0].playback(PlaybackOptions::new(options()));
    let tool_call_id = ToolCallId::parse("t").unwrap();
    assert!(!steps.contains(&PlaybackStep::AwaitAnswer { tool_call_id }));
    assert_eq!(outline(&steps).last().unwrap(), "session_end");
}

mod line {
    use serde_json::{Value, json};

    pub(super) fn init() -> Value {
        json!({ "type": "system", "subtype": "init", "model": "m", "session_id": "s" })
    }

    pub(super) fn says(text: &str) -> Value {
        json!({ "type": "assistant", "parent_tool_use_id": null, "session_id": "s",
            "message": { "id": text, "model": "m", "content": [{ "type": "text", "text": text }] } })
    }

    pub(super) fn result() -> Value {
        json!({ "type": "result", "subtype": "success", "is_error": false, "session_id": "s",
            "terminal_reason": "completed" })
    }

    pub(super) fn interrupted() -> Value {
        json!({ "type": "result", "subtype": "error_during_execution", "is_error": true, "session_id": "s",
            "terminal_reason": "aborted_tools" })
    }

    pub(super) fn message(uuid: &str, state: &str) -> Value {
        json!({ "type": "command_lifecycle", "command_uuid": uuid, "state": state, "session_id": "s" })
    }
}

fn played(lines: &[Value]) -> Vec<String> {
    let text: Vec<_> = lines.iter().map(Value::to_string).collect();
    let recording = Recording::parse(&text.join("\n")).unwrap();
    outline(&recording.segments()[0].playback(PlaybackOptions::new(options())))
}

const TURN: [&str; 3] = ["turn_started", "assistant_message", "turn_completed"];

#[test]
fn message_answered_in_the_next_turn_is_awaited_once() {
    use line::{init, message, result, says};
    let lines = [
        init(),
        says("one"),
        message("a", "queued"),
        result(),
        message("a", "started"),
        init(),
        says("two"),
        result(),
    ];
    assert_eq!(played(&lines), [&TURN[..], &["message"], &TURN[..]].concat());
}

#[test]
fn the_prompt_and_a_withdrawn_message_are_not_awaited() {
    use line::{init, message, result, says};
    let ended = json!({ "type": "system", "subtype": "task_notification", "task_id": "b", "status": "completed",
        "summary": "the build ended", "session_id": "s" });
    let prompt = [message("p", "queued"), message("p", "started"), init(), says("one"), result()];
    assert_eq!(played(&prompt), TURN);
    let two_turns = [&prompt[..], &[ended, init(), says("two"), result()]].concat();
    assert_eq!(played(&two_turns), [&TURN[..], &["notice"], &TURN[..]].concat());
    let withdrawn = [init(), message("w", "queued"), says("one"), message("w", "cancelled"), result()];
    assert_eq!(played(&withdrawn), TURN);
}

#[test]
fn turn_started_by_a_background_task_awaits_no_message() {
    use line::{init, result, says};
    let ended = json!({ "type": "system", "subtype": "task_notification", "task_id": "b", "status": "completed",
        "summary": "the build ended", "session_id": "s" });
    let lines = [init(), says("one"), result(), ended, init(), says("two"), result()];
    assert_eq!(played(&lines), [&TURN[..], &["notice"], &TURN[..]].concat());
}

#[test]
fn a_recorded_interrupt_ends_its_turn() {
    use line::{init, interrupted, message, result, says};
    let cut = ["turn_started", "assistant_message", "notice", "turn_completed"];
    assert_eq!(played(&[init(), says("one"), interrupted()]), cut);
    // A message that was queued before the interrupt begins the next turn.
    let lines = [
        init(),
        says("one"),
        message("a", "queued"),
        interrupted(),
        message("a", "started"),
        init(),
        says("two"),
        result(),
    ];
    assert_eq!(played(&lines), [&cut[..], &["message"], &TURN[..]].concat());
}

#[test]
fn enveloped_recording_plays_like_a_plain_one() {
    let wrapped: Vec<_> = raw(STDIO_TOUR)
        .into_iter()
        .zip(1..)
        .map(|(line, t): (_, u32)| json!({ "t": t, "dir": "out", "m": line }).to_string())
        .collect();
    let recording = Recording::parse(&wrapped.join("\n")).unwrap();
    let steps = recording.segments()[0].playback(PlaybackOptions::new(options()));
    assert_eq!(outline(&steps), outline(&self::steps(STDIO_TOUR)));
}

#[test]
fn recorded_input_shows_turn_starts_and_interrupts() {
    use line::{init, result, says};
    let out = |line: Value| json!({ "t": 1, "dir": "out", "m": line });
    let sent = |line: Value| json!({ "t": 1, "dir": "in", "m": line });
    let says_user =
        |text: &str| sent(json!({ "type": "user", "message": { "role": "user", "content": text } }));
    let interrupt =
        sent(json!({ "type": "control_request", "request_id": "r", "request": { "subtype": "interrupt" } }));
    // A result without a reason belongs to the interrupt.
    let failed =
        json!({ "type": "result", "subtype": "error_during_execution", "is_error": true, "session_id": "s" });
    let lines = [
        says_user("begin"),
        out(init()),
        out(says("one")),
        out(result()),
        // The agent began this turn on its own.
        out(init()),
        out(says("two")),
        interrupt,
        out(failed),
        says_user("go on"),
        out(init()),
        out(says("three")),
        out(result()),
    ];
    let cut = ["turn_started", "assistant_message", "notice", "turn_completed"];
    assert_eq!(played(&lines), [&TURN[..], &cut[..], &["message"], &TURN[..]].concat());
}
