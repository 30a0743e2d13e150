//! Runs that fail, are resumed, forked or compacted.

use std::collections::BTreeMap;

use pilothouse_domain::value::SessionOutcome;
use pilothouse_sidecar::kit::claude_stream::{Ignored, Signal, TurnEnd};
use pilothouse_wire::event::RawEvent;
use serde_json::Value;

use crate::support::{ERRORS, Run, load, options, raw, raw_text, translate, translate_with};

fn run(name: &str) -> Run {
    translate(load(ERRORS).segment(name).unwrap_or_else(|| panic!("no run {name}")))
}

fn end(run: &Run) -> (bool, String, String) {
    assert_eq!(run.session_ends().len(), 1, "{:?}", run.names());
    assert!(!run.names().contains(&"turn_completed"), "{:?}", run.names());
    let end = run.session_ends()[0];
    (end.is_error, end.reason.clone(), end.message.clone().unwrap_or_default())
}

fn assert_completed(run: &Run) {
    assert_eq!(run.names().last(), Some(&"turn_completed"), "{:?}", run.names());
    assert_eq!(run.names().iter().filter(|name| **name == "turn_started").count(), 1);
    assert_eq!(run.session_ends().len(), 0);
    let ends: Vec<_> = run.signals.iter().filter(|signal| matches!(signal, Signal::TurnEnded(_))).collect();
    assert_eq!(ends, [&Signal::TurnEnded(TurnEnd::Completed)]);
}

#[test]
fn recording_contains_its_runs_by_name() {
    let recording = load(ERRORS);
    let names: Vec<_> = recording.segments().iter().map(|segment| segment.name().unwrap()).collect();
    let expected: Vec<String> =
        raw(ERRORS).iter().filter_map(|line| line["__marker"].as_str().map(str::to_owned)).collect();
    assert_eq!(names, expected);
    assert_eq!(names.len(), 19);
    let lines: usize = recording.segments().iter().map(|segment| segment.lines().len()).sum();
    assert_eq!(lines, raw(ERRORS).len());
}

#[test]
fn every_error_line_is_accounted_for() {
    let mut ignored: BTreeMap<Ignored, usize> = BTreeMap::new();
    let mut translated = 0;
    for segment in load(ERRORS).segments() {
        let run = translate(segment);
        assert_eq!(run.notices().iter().filter(|(name, _)| name.starts_with("unknown")).count(), 0);
        translated += run.translated;
        for (reason, count) in run.ignored {
            *ignored.entry(reason).or_default() += count;
        }
    }
    let expected = BTreeMap::from([
        (Ignored::RecorderMarker, 19),
        // Each repeats the error of the preceding result.
        (Ignored::RepeatedThrow, 7),
        (Ignored::StatusPing, 2),
        (Ignored::Replay, 1),
    ]);
    assert_eq!(ignored, expected);
    assert_eq!(translated + ignored.values().sum::<usize>(), raw(ERRORS).len());
}

#[test]
fn every_retry_is_a_notice() {
    let recorded = raw(ERRORS).iter().filter(|line| line["subtype"] == "api_retry").count();
    let notices: usize = load(ERRORS)
        .segments()
        .iter()
        .map(|segment| translate(segment).notices_named("api_retry").len())
        .sum();
    assert_eq!((recorded, notices), (20, 20));
    assert_eq!(
        run("429x2 retry-after 1").notices_named("api_retry"),
        [
            "The model call failed (429 rate_limit); retry 1 of 10 in 1.2 s",
            "The model call failed (429 rate_limit); retry 2 of 10 in 1.0 s"
        ]
    );
}

#[test]
fn recovered_failure_is_a_completed_turn() {
    for (name, text) in [
        ("429x2 retry-after 1", "recovered after 2 errors"),
        ("529x2", "recovered after 2 errors"),
        ("streamError mid", "aaaa bbbb cccc"),
        ("disconnect mid", "aaaa bbbb cccc"),
        ("unknown model price", "hi"),
    ] {
        let run = run(name);
        assert_completed(&run);
        assert_eq!(run.texts(), [text], "{name}");
    }
}

#[test]
fn success_with_an_error_flag_is_an_error_with_its_text() {
    let recording = load(ERRORS);
    let lines = recording.segment("400 forever").unwrap().lines();
    let result = lines.iter().find(|line| line.value["type"] == "result").unwrap();
    assert_eq!(result.value["subtype"], "success");
    let run = run("400 forever");
    let (is_error, reason, message) = end(&run);
    assert_eq!((is_error, reason.as_str()), (true, "prompt_too_long"));
    assert!(message.starts_with("Prompt is too long"), "{message}");
    assert_eq!(message, result.value["result"].as_str().unwrap());
    assert_eq!(run.signals, [Signal::TurnEnded(TurnEnd::Failed)]);
    // The runtime writes it on the agent's behalf, so it is not a message of the agent.
    assert_eq!(run.texts().len(), 0);
    assert_eq!(run.notices_named("api_error").len(), 1);
    assert_eq!(run.usage().len(), 0);
}

#[test]
fn model_that_does_not_answer_keeps_the_turn_open() {
    for (name, begins) in [
        ("500 forever maxretries 2", "API Error: 500 fake 500."),
        ("529 forever maxretries 2 with fallbackModel", "API Error: 529 fake 529."),
        ("no server", "API Error: Connection refused"),
    ] {
        let run = run(name);
        let unavailable = run.events.iter().find_map(|event| match event {
            RawEvent::ModelUnavailable { message, .. } => message.as_deref(),
            _ => None,
        });
        assert!(unavailable.unwrap().starts_with(begins), "{unavailable:?}");
        assert_eq!(run.signals, [Signal::WaitsForModel]);
        // The recorded process ended afterwards, within the open turn.
        let reasons: Vec<_> = run.session_ends().iter().map(|end| end.reason.clone()).collect();
        assert_eq!(reasons, ["stream_ended"], "{name}");
        let names = run.names();
        let started = names.iter().filter(|event| **event == "turn_started").count();
        assert!(started == 1 && !names.contains(&"turn_completed"), "{name}: {names:?}");
        let notices = run.notices_named("api_error");
        assert!(notices.len() == 1 && notices[0].starts_with(begins), "{name}: {notices:?}");
    }
}

#[test]
fn first_prompt_that_is_too_long_does_not_exhaust_the_context() {
    assert!(!run("400 forever").names().contains(&"context_exhausted"));
}

#[test]
fn limits_end_the_turn_under_their_names_and_spend_counts() {
    let outcome = |run: &Run| match run.events.last() {
        Some(RawEvent::TurnCompleted { outcome, .. }) => *outcome,
        other => panic!("{other:?}"),
    };
    let turns = run("maxTurns 2");
    assert_eq!(outcome(&turns), SessionOutcome::MaxIterations);
    assert_eq!(turns.usage().last().unwrap().cost_usd, "0.009609");

    let budget = run("maxBudgetUsd 0.05");
    assert_eq!(outcome(&budget), SessionOutcome::BudgetExceeded);
    // The runtime checks after the call that exceeded the budget.
    assert_eq!(budget.usage().last().unwrap().cost_usd, "0.09");
    // The interrupted call has no result.
    let results = budget.names().iter().filter(|name| **name == "tool_result").count();
    let calls = budget.names().iter().filter(|name| **name == "assistant_message").count();
    assert_eq!((calls, results), (2, 1));
}

#[test]
fn a_fallback_is_a_notice() {
    assert_eq!(
        run("529 forever maxretries 2 with fallbackModel").notices_named("model_fallback"),
        ["Switched to Haiku 4.5 due to high demand for Sonnet 4.5"]
    );
}

#[test]
fn truncated_or_refused_answer_continues_in_the_same_turn() {
    let cut = run("max_tokens stop");
    assert_completed(&cut);
    assert_eq!(cut.texts().len(), 2);
    assert_eq!(cut.texts()[0], "cut");
    assert_eq!(cut.notices_named("runtime_message").len(), 1);
    assert!(cut.notices_named("runtime_message")[0].starts_with("Output token limit hit."));

    let refused = run("refusal stop");
    assert_completed(&refused);
    assert_eq!(refused.texts()[0], "no");
    assert_eq!(refused.notices_named("informational").len(), 1);
    assert!(refused.notices_named("runtime_message")[0].starts_with("Your response above was stopped"));
}

#[test]
fn run_cut_off_by_the_recorder_ends_in_an_error() {
    let run = run("401");
    assert_eq!(run.notices_named("api_retry").len(), 7);
    let (is_error, reason, _) = end(&run);
    assert!(is_error);
    assert_eq!(reason, "stream_ended");
}

#[test]
fn missing_conversation_ends_before_any_turn() {
    let run = run("resume missing");
    assert_eq!(run.names(), ["session_end"]);
    assert_eq!(
        end(&run),
        (
            true,
            "error_during_execution".into(),
            "No conversation found with session ID: 00000000-0000-4000-8000-000000000000".into()
        )
    );
    assert_eq!(run.signals, []);
}

/// The literals of `total_cost_usd`, rounded to 12 decimals on their digits.
fn literal_total(name: &str) -> String {
    let text = raw_text(ERRORS);
    let from = text.find(&format!("{{\"__marker\":\"{name}\"}}")).unwrap();
    let literal = text[from..].split("\"total_cost_usd\":").nth(1).unwrap();
    let literal: String = literal.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    let (whole, decimals) = literal.split_once('.').unwrap_or((&literal, ""));
    let mut digits: u128 = format!("{whole}{decimals:0<18}").parse().unwrap();
    digits = (digits + 500_000) / 1_000_000;
    let text = format!("{digits:013}");
    let (whole, decimals) = text.split_at(text.len() - 12);
    let decimals = decimals.trim_end_matches('0');
    if decimals.is_empty() { whole.to_owned() } else { format!("{whole}.{decimals}") }
}

#[test]
fn totals_are_exact_without_float_errors() {
    for (name, expected) in [
        ("429x2 retry-after 1", "0.004773"),
        ("529x2", "0.00477"),
        ("disconnect mid", "0.009186"),
        ("max_tokens stop", "0.00957"),
        ("refusal stop", "0.009573"),
        ("unknown model price", "0.06"),
        ("resume step2", "0.009567"),
        ("resume fork", "0.014385"),
        ("resume compact", "0.020253"),
    ] {
        assert_eq!(literal_total(name), expected, "{name}");
        assert_eq!(run(name).usage().last().unwrap().cost_usd, expected, "{name}");
    }
}

#[test]
fn runtime_reports_the_context_limit_with_its_result() {
    let run = run("unknown model price");
    let limits: Vec<u64> =
        run.usage().iter().map(|u| u.context_window.unwrap().model_context_limit).collect();
    assert_eq!(limits, [200_000, 1_000_000]);
    assert_eq!(run.usage()[1].model_id, "my-unknown-model");
}

#[test]
fn resumed_conversation_keeps_its_meter_and_a_fork_gets_its_own() {
    let recording = load(ERRORS);
    let last = |name: &str| {
        let run = translate_with(recording.segment(name).unwrap(), options().continued(None));
        // No totals are known before the first result, so no value is reported that could decrease.
        assert_eq!(run.usage().len(), 1, "{name}");
        let update = run.usage()[0].clone();
        (update.meter_id.to_string(), update.cost_usd, update.token_usage.total())
    };
    let first =
        run("resume step1").usage().last().map(|u| (u.meter_id.to_string(), u.cost_usd.clone())).unwrap();
    assert_eq!(first.1, "0.004773");
    let resumed = last("resume step2");
    let forked = last("resume fork");
    let compacted = last("resume compact");
    assert_eq!(resumed, (first.0.clone(), "0.009567".into(), 2939 + 50));
    assert_ne!(forked.0, first.0);
    // The fork starts at its parent's total: 0.009567, plus 0.004818 of its own.
    assert_eq!((forked.1.as_str(), forked.2), ("0.014385", 4420 + 75));
    // The parent's meter continued without the fork's spend.
    assert_eq!((compacted.0, compacted.1.as_str()), (first.0, "0.020253"));
}

#[test]
fn known_totals_let_a_resumed_conversation_report_at_once() {
    let recording = load(ERRORS);
    let mut translator = pilothouse_sidecar::kit::claude_stream::Translator::new(options());
    for line in recording.segment("resume step1").unwrap().lines() {
        translator.line(&line.value);
    }
    let totals = translator.totals().cloned();
    let run = translate_with(recording.segment("resume step2").unwrap(), options().continued(totals));
    let costs: Vec<_> = run.usage().iter().map(|u| u.cost_usd.as_str()).collect();
    assert_eq!(costs, ["0.004773", "0.009567"]);
}

#[test]
fn compaction_is_a_notice_and_changes_the_window() {
    let run = run("resume compact");
    assert_completed(&run);
    assert_eq!(
        run.notices_named("compact_boundary"),
        ["The context was compacted (manual): 1498 tokens before, 2709 after"]
    );
    let window = run.usage().last().unwrap().context_window.unwrap();
    assert_eq!(window.usage.total(), 2709);
}

#[test]
fn only_the_recorded_run_endings_are_emitted() {
    let ends: Vec<(String, Value)> = load(ERRORS)
        .segments()
        .iter()
        .filter_map(|segment| {
            let run = translate(segment);
            let last = run.events.last().map(RawEvent::name);
            (last != Some("turn_completed")).then(|| {
                (segment.name().unwrap().to_owned(), Value::from(run.session_ends()[0].reason.clone()))
            })
        })
        .collect();
    let names: Vec<&str> = ends.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "500 forever maxretries 2",
            "529 forever maxretries 2 with fallbackModel",
            "400 forever",
            "401",
            "resume missing",
            "no server"
        ]
    );
}
