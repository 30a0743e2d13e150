//! Recorded runs as steps with a person in the loop.

use std::time::Duration;

use pilothouse_domain::ToolCallId;
use pilothouse_sidecar::claude::{PlaybackOptions, PlaybackStep, Recording};
use pilothouse_wire::event::RawEvent;
use serde_json::json;

use crate::support::{ERRORS, SDK_TOUR, STDIO_TOUR, load, options, tour};

fn steps(file: &str) -> Vec<PlaybackStep> {
    load(file).segments()[0].playback(PlaybackOptions::new(options()))
}

/// The event names and the waits for people, without the passing of time.
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
fn it_waits_for_the_answer_the_decision_and_the_message_where_a_person_gave_them() {
    let outline = outline(&steps(SDK_TOUR));
    let at = |wanted: &str| outline.iter().position(|step| step == wanted).unwrap();

    let answer = at("answer toolu_471693de349935");
    assert_eq!(
        outline[answer - 2..=answer + 1],
        ["assistant_message", "usage_update", &outline[answer], "tool_result"]
    );

    // The mode changes because of the decision, so it changes after it.
    let plan = at("plan toolu_07c75b932db943");
    assert_eq!(
        outline[plan - 2..=plan + 2],
        ["assistant_message", "usage_update", &outline[plan], "notice", "tool_result"]
    );

    // The steering message came while the last tool ran.
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
fn both_forms_play_alike() {
    let people = |file| {
        let mut steps = steps(file);
        steps.retain(|step| !matches!(step, PlaybackStep::Wait(_)));
        steps
    };
    assert_eq!(people(SDK_TOUR), people(STDIO_TOUR));
}

#[test]
fn time_passes_as_recorded_up_to_the_cap_and_never_for_a_person() {
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
    // `sleep 2` is in it, and the whole is what the timestamps span (35.559 to 39.698) without the two answers
    // (37.198 to 37.219 and 37.380 to 37.395).
    assert_eq!(full.iter().max(), Some(&Duration::from_millis(2039)));
    assert_eq!(full.iter().sum::<Duration>(), Duration::from_millis(4139 - 21 - 15));
    let capped = waited(Duration::from_millis(100));
    assert_eq!(capped.len(), full.len());
    assert_eq!(capped.iter().max(), Some(&Duration::from_millis(100)));
    assert_eq!(waited(Duration::ZERO), [Duration::ZERO; 0]);
}

#[test]
fn a_run_of_many_plays_by_its_name() {
    let recording = load(ERRORS);
    let outlined =
        |name: &str| outline(&recording.segment(name).unwrap().playback(PlaybackOptions::new(options())));
    assert_eq!(outlined("maxBudgetUsd 0.05").last().unwrap(), "turn_completed");
    assert_eq!(outlined("401").last().unwrap(), "session_end");
    // A conversation that was taken up reports no total below what it had.
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
fn a_question_that_nobody_answered_in_the_recording_is_not_waited_for() {
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
