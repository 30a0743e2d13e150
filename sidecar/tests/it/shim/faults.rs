//! Shims that answer slowly, wrongly or not at all, lose events, or die: each ends in a defined state.

use pilothouse_domain::value::MessagePriority;
use pilothouse_domain::{CommandId, Timestamp};
use pilothouse_wire::Command;
use serde_json::{Value, json};

use super::secrets::logged;
use super::{Harness, approval, completed, said};
use crate::sidecar::message;

/// A response with an error of the protocol, which has these other fields.
fn error(code: &str, mut fields: Value) -> Value {
    fields["code"] = code.into();
    fields["message"] = "no".into();
    fields
}

/// The reason and the message with which the session's conversation ended.
async fn end(harness: &Harness) -> (String, String) {
    let end = harness.event("session_end").await;
    let text = |name: &str| end[name].as_str().unwrap_or_default().to_owned();
    (text("reason"), text("message"))
}

/// When the sidecar emitted the first event of this kind, in milliseconds since the Unix epoch.
async fn emitted_at(harness: &Harness, short: &str) -> i64 {
    let at = harness.gateway.sees(short).await;
    let sealed: Value = serde_json::from_str(&harness.gateway.delivered()[at].sealed).unwrap();
    sealed["envelope"]["time"].as_str().unwrap().parse::<Timestamp>().unwrap().as_millis()
}

#[tokio::test]
async fn shim_that_never_gets_ready_is_refused_with_the_reason() {
    for (script, why) in [
        (json!({ "start": "die" }), "dying in start"),
        (json!({ "health": "die" }), "dying in health"),
        (json!({ "health": "hang" }), "was not healthy within 5 s"),
        (json!({ "health": "garbage" }), "was not healthy within 5 s"),
        (json!({ "health": "unhealthy" }), "was not healthy within 5 s"),
    ] {
        let harness = Harness::playing(script.clone()).await;
        let refused = harness.event("command_refused").await;
        assert!(refused["message"].as_str().unwrap().contains(why), "{script}: {refused}");
        assert_eq!(end(&harness).await.0, "adapter_error");
    }
}

#[tokio::test]
async fn failed_spawn_ends_the_session_with_the_reason() {
    for (spawn, reason, why) in [
        (json!("hang"), "spawn_failed", "did not answer within 1 s"),
        (json!("garbage"), "spawn_failed", "is not valid"),
        (
            json!([error("provider_unavailable", json!({ "retryable": false }))]),
            "spawn_failed",
            "not available",
        ),
        (
            json!([error("capability_unsupported", json!({ "capability": "x" }))]),
            "spawn_failed",
            "does not support",
        ),
        (
            json!([error("context_overflow", json!({ "currentTokens": 9, "maxTokens": 8 }))]),
            "context_overflow",
            "9 of 8",
        ),
    ] {
        let harness = Harness::playing(json!({ "spawn": spawn, "turn": [completed()] })).await;
        let (was, message) = end(&harness).await;
        assert!(was == reason && message.contains(why), "{spawn}: {was} {message}");
        let is_full = harness.gateway.story().iter().any(|event| event == "context_exhausted");
        assert_eq!(is_full, reason == "context_overflow", "{spawn}");
    }
    let harness = Harness::playing(json!({ "spawn": "die" })).await;
    assert!(["spawn_failed", "adapter_error"].contains(&end(&harness).await.0.as_str()));
}

#[tokio::test]
async fn refused_spawn_is_repeated_as_the_error_says() {
    // More than the pause of at most a second after an error without a time.
    let limited = error("rate_limited", json!({ "retryAfterMs": 1_500 }));
    let unavailable = error("provider_unavailable", json!({ "retryable": true }));
    let harness =
        Harness::playing(json!({ "spawn": [limited, unavailable], "turn": [said("begun"), completed()] }))
            .await;
    let first = emitted_at(&harness, "notice rate_limited").await;
    let second = emitted_at(&harness, "notice provider_unavailable").await;
    harness.gateway.sees("turn_completed").await;
    assert!(second - first >= 1_200, "it was repeated after {} ms", second - first);
    let busy = error("invalid_state", json!({}));
    let harness = Harness::playing(json!({ "spawn": [busy], "turn": [completed()] })).await;
    harness.gateway.sees("notice shim_restarted").await;
    harness.gateway.sees("turn_completed").await;
    assert_eq!(harness.starts(), 2);
}

#[tokio::test]
async fn long_rate_limit_pauses_the_session_and_the_resume_begins_the_turn() {
    let limited = error("rate_limited", json!({ "retryAfterMs": 300_000 }));
    let harness = Harness::playing(json!({ "spawn": [limited], "turn": [said("begun"), completed()] })).await;
    let unavailable = harness.event("model_unavailable").await;
    let emitted = emitted_at(&harness, "model_unavailable").await;
    let retry_at = unavailable["retryAt"].as_str().unwrap().parse::<Timestamp>().unwrap().as_millis();
    let delay = retry_at - emitted;
    // The provider's delay, with at most a tenth of it added. The two clocks are read at different times.
    assert!((295_000..=335_000).contains(&delay), "{unavailable}: {delay} ms");
    assert!(unavailable["message"].as_str().unwrap().contains("300000 ms"), "{unavailable}");
    let pause = harness.gateway.send(Command::Pause {});
    harness.gateway.acknowledged(pause, "done").await;
    let resume = harness.gateway.send(Command::Resume {});
    harness.gateway.acknowledged(resume, "done").await;
    harness.gateway.sees("turn_completed").await;
    let story = harness.gateway.story();
    let count = |what: &str| story.iter().filter(|event| event.starts_with(what)).count();
    assert_eq!((count("turn_started"), count("session_end")), (1, 0), "{story:#?}");
    assert_eq!(count("notice rate_limited"), 0, "{story:#?}");
}

#[tokio::test]
async fn turn_that_cannot_begin_after_eight_attempts_waits_for_its_provider() {
    let limited = error("rate_limited", json!({ "retryAfterMs": 1 }));
    let spawn = vec![limited; 9];
    let harness = Harness::playing(json!({ "spawn": spawn, "turn": [said("begun"), completed()] })).await;
    harness.gateway.sees("model_unavailable").await;
    let resume = harness.gateway.send(Command::Resume {});
    harness.gateway.acknowledged(resume, "done").await;
    harness.gateway.sees_nth("model_unavailable", 2).await;
    let story = harness.gateway.story();
    let count = |what: &str| story.iter().filter(|event| event.starts_with(what)).count();
    assert_eq!((count("notice rate_limited"), count("session_end")), (7, 0), "{story:#?}");
    let interrupt = harness.gateway.send(Command::Interrupt {});
    harness.gateway.acknowledged(interrupt, "done").await;
    harness.gateway.send(message("go on", MessagePriority::Queued));
    harness.gateway.sees("turn_completed").await;
}

#[tokio::test]
async fn gap_is_filled_by_a_replay() {
    let missed = json!({ "skip": { "type": "status", "message": "missed" } });
    let harness = Harness::playing(json!({ "turn": [said("one"), missed, said("two"), completed()] })).await;
    harness.gateway.sees("turn_completed").await;
    let story = harness.gateway.story();
    let texts: Vec<_> =
        story.iter().filter_map(|event| event.strip_prefix("assistant_message text ")).collect();
    assert_eq!(texts, ["one", "missed", "two"]);
    assert!(!story.iter().any(|event| event.starts_with("notice event_gap")));
}

#[tokio::test]
async fn gap_that_cannot_be_filled_is_reported() {
    let missed = json!({ "skip": { "type": "status", "message": "missed" } });
    let replay = json!([error("capability_unsupported", json!({ "capability": "replay" }))]);
    let harness = Harness::playing(
        json!({ "replay": replay, "turn": [said("one"), missed, said("two"), completed()] }),
    )
    .await;
    let gap = harness.event("notice event_gap").await;
    assert!(gap["summary"].as_str().unwrap().contains("sequences 2-2"), "{gap}");
    harness.gateway.sees("assistant_message text two").await;
    harness.gateway.sees("turn_completed").await;
}

#[tokio::test]
async fn repeated_event_is_published_once() {
    let harness = Harness::playing(
        json!({ "turn": [said("once"), { "repeat": true }, { "repeat": true }, completed()] }),
    )
    .await;
    harness.gateway.sees("turn_completed").await;
    let story = harness.gateway.story();
    assert_eq!(story.iter().filter(|event| *event == "assistant_message text once").count(), 1);
}

#[tokio::test]
async fn events_in_another_order_are_published_in_order() {
    let event = |text: &str| said(text)["emit"].clone();
    let swap = json!({ "swap": [event("two"), event("three")] });
    let harness = Harness::playing(json!({ "turn": [said("one"), swap, said("four"), completed()] })).await;
    harness.gateway.sees("turn_completed").await;
    let story = harness.gateway.story();
    let texts: Vec<_> =
        story.iter().filter_map(|event| event.strip_prefix("assistant_message text ")).collect();
    assert_eq!(texts, ["one", "two", "three", "four"]);
}

#[tokio::test]
async fn second_event_with_a_sequence_is_reported() {
    let other = json!({ "same": { "type": "status", "message": "other" } });
    let harness = Harness::playing(json!({ "turn": [said("one"), other, said("two"), completed()] })).await;
    harness.gateway.sees("turn_completed").await;
    let dropped = harness.event("notice event_dropped").await;
    assert!(dropped["summary"].as_str().unwrap().contains("sequence 1"), "{dropped}");
    assert!(!harness.gateway.story().contains(&"assistant_message text other".to_owned()));
}

#[tokio::test]
async fn message_that_is_too_large_ends_the_shim() {
    let harness =
        Harness::playing(json!({ "turn": [said("one"), { "oversized": true }, completed()] })).await;
    let (reason, why) = end(&harness).await;
    assert!(reason == "adapter_error" && why.contains("more than 64 MiB"), "{reason} {why}");
    assert!(harness.gateway.story().contains(&"assistant_message text one".to_owned()));
}

#[tokio::test]
async fn wrong_drafts_are_reported_a_few_times_and_dropped() {
    let mut turn =
        vec![json!({ "raw": json!({ "type": "draft", "kind": "poem", "text": "x" }).to_string() }); 60];
    turn.extend([said("one"), completed()]);
    let harness = Harness::playing(json!({ "turn": turn })).await;
    harness.gateway.sees("assistant_message text one").await;
    harness.gateway.sees("turn_completed").await;
    let story = harness.gateway.story();
    let notices = story.iter().filter(|event| event.starts_with("notice draft_dropped")).count();
    assert_eq!(notices, 20, "{story:#?}");
    assert!(!story.iter().any(|event| event.starts_with("notice event_quarantined")), "{story:#?}");
}

/// Garbage does not end a turn, however much of it comes.
#[tokio::test]
async fn garbage_between_events_is_text_or_quarantined() {
    let garbage = ["{\"sourceSequence\": ", "[1, 2", "\u{0}\u{1}", "{\"event\": 3}", "{}", "null"];
    let mut turn = vec![said("one")];
    turn.extend(garbage.iter().cycle().take(60).map(|text| json!({ "raw": text })));
    turn.extend([said("two"), completed()]);
    let harness = Harness::playing(json!({ "turn": turn })).await;
    harness.gateway.sees("assistant_message text two").await;
    harness.gateway.sees("turn_completed").await;
    let story = harness.gateway.story();
    assert!(story.iter().any(|event| event.starts_with("notice event_quarantined")), "{story:#?}");
}

#[tokio::test]
async fn broken_stream_is_connected_again() {
    let harness =
        Harness::playing(json!({ "turn": [said("one"), { "drop": true }, said("two"), completed()] })).await;
    harness.gateway.sees("assistant_message text two").await;
    harness.gateway.sees("turn_completed").await;
    assert_eq!(harness.starts(), 1);
}

#[tokio::test]
async fn each_event_is_valid_repaired_quarantined_or_text() {
    let broken = json!({ "emit": { "type": "tool_call", "phase": "sometime" } });
    let repaired = json!({ "emit": { "type": "completion", "outcome": "Success" } });
    let harness = Harness::playing(json!({ "turn": [{ "raw": "I think aloud" }, broken, repaired] })).await;
    harness.gateway.sees("turn_completed").await;
    harness.gateway.sees("assistant_message text I think aloud").await;
    let quarantined = harness.event("notice event_quarantined").await;
    assert_eq!(quarantined["detail"]["errors"].as_array().unwrap().len(), 3);
    assert!(quarantined["detail"]["raw"].as_str().unwrap().contains("sometime"), "{quarantined}");
    let repairs = harness.event("notice event_repaired").await["detail"]["repairs"].clone();
    assert!(repairs.as_array().unwrap().contains(&json!("`outcome` was spelled differently")), "{repairs}");
}

#[tokio::test]
async fn shim_that_dies_in_a_turn_ends_it_after_its_last_events() {
    let harness = Harness::playing(json!({ "turn": [said("last words"), { "die": true }] })).await;
    let (reason, why) = end(&harness).await;
    assert!(reason == "adapter_error" && why.contains("dying in the turn"), "{reason} {why}");
    assert!(harness.gateway.story().contains(&"assistant_message text last words".to_owned()));
    let harness =
        Harness::playing(json!({ "turn": [{ "checkpoint": true }, completed(), { "die": true }] })).await;
    harness.gateway.sees("turn_completed").await;
    harness.gateway.sees("notice agent_ended").await;
    harness.gateway.send(message("next", MessagePriority::Queued));
    harness.gateway.sees("assistant_message text resumed at 7 with \"next\"").await;
}

#[tokio::test]
async fn failing_health_checks_end_the_shim() {
    let answers: Vec<_> = (0..20).map(|_| error("invalid_state", json!({}))).collect();
    let harness =
        Harness::playing(json!({ "health-later": answers, "turn": [said("begun"), { "forever": true }] }))
            .await;
    harness.gateway.sees("assistant_message text begun").await;
    let (reason, why) = end(&harness).await;
    assert!(reason == "adapter_error" && why.contains("3 health checks"), "{reason} {why}");
}

#[tokio::test]
async fn pause_holds_whatever_the_shim_answers() {
    for pause in [
        json!("hang"),
        json!("garbage"),
        json!([error("invalid_state", json!({}))]),
        json!([error("capability_unsupported", json!({ "capability": "supportsPause" }))]),
    ] {
        let script = json!({ "plugin": { "supportsPause": true }, "pause": pause,
            "turn": [said("begun"), { "hear": true }, completed()] });
        let harness = Harness::playing(script).await;
        harness.gateway.sees("assistant_message text begun").await;
        let id = harness.gateway.send(Command::Pause {});
        harness.gateway.acknowledged(id, "done").await;
        harness.gateway.send(Command::Resume {});
        harness.gateway.send(message("go", MessagePriority::Immediate));
        harness.gateway.sees("turn_completed").await;
    }
}

#[tokio::test]
async fn shim_that_dies_in_a_pause_is_started_again_by_the_resume() {
    let script = json!({ "plugin": { "supportsPause": true }, "resume": "die", "turn": [said("begun"), { "forever": true }] });
    let harness = Harness::playing(script).await;
    harness.gateway.sees("assistant_message text begun").await;
    let pause = harness.gateway.send(Command::Pause {});
    harness.gateway.acknowledged(pause, "done").await;
    let resume = harness.gateway.send(Command::Resume {});
    harness.gateway.acknowledged(resume, "done").await;
    harness.gateway.sees("assistant_message text resumed at 7 with null").await;
    harness.gateway.sees("turn_completed").await;
    assert_eq!(harness.starts(), 2);
}

#[tokio::test]
async fn shim_that_dies_in_a_request_of_a_turn_ends_it() {
    for phase in ["pause", "resolve", "inject-context"] {
        let mut script =
            json!({ "plugin": { "supportsPause": true }, "turn": [approval(), { "forever": true }] });
        script[phase] = "die".into();
        let harness = Harness::playing(script).await;
        let at = harness.gateway.sees("question_asked").await;
        let asked = harness.gateway.delivered().swap_remove(at);
        match phase {
            "pause" => harness.gateway.send(Command::Pause {}),
            "resolve" => harness.gateway.decide(&asked, "Allow", None),
            _ => harness.gateway.send(message("look", MessagePriority::Immediate)),
        };
        let (reason, why) = end(&harness).await;
        assert!(reason == "adapter_error" && why.contains(&format!("dying in {phase}")), "{reason} {why}");
    }
}

#[tokio::test]
async fn slow_shim_is_waited_for() {
    let script = json!({ "plugin": { "supportsPause": true }, "health": "slow", "spawn": "slow", "pause": "slow",
        "resume": "slow", "resolve": "slow", "inject-context": "slow", "kill": "slow",
        "turn": [approval(), { "hear": true }, { "hear": true }, completed()] });
    let harness = Harness::playing(script).await;
    let at = harness.gateway.sees("question_asked").await;
    let asked = harness.gateway.delivered().swap_remove(at);
    let pause = harness.gateway.send(Command::Pause {});
    harness.gateway.acknowledged(pause, "done").await;
    let resume = harness.gateway.send(Command::Resume {});
    harness.gateway.acknowledged(resume, "done").await;
    let answer = harness.gateway.decide(&asked, "Allow", None);
    harness.gateway.acknowledged(answer, "done").await;
    harness.gateway.send(message("look", MessagePriority::Immediate));
    harness.gateway.sees("turn_completed").await;
    let stop = harness.gateway.send(Command::Stop {});
    harness.gateway.acknowledged(stop, "done").await;
    let story = harness.gateway.story();
    assert!(!story.iter().any(|event| event.starts_with("notice")), "{story:#?}");
}

#[tokio::test]
async fn interrupt_and_stop_end_a_shim_that_does_not_answer() {
    for kill in ["hang", "garbage", "die"] {
        let script = json!({ "kill": kill, "turn": [said("begun"), { "forever": true }] });
        let harness = Harness::playing(script.clone()).await;
        harness.gateway.sees("assistant_message text begun").await;
        let interrupt = harness.gateway.send(Command::Interrupt {});
        harness.gateway.acknowledged(interrupt, "done").await;
        let harness = Harness::playing(script).await;
        harness.gateway.sees("assistant_message text begun").await;
        let stop = harness.gateway.send(Command::Stop {});
        harness.gateway.acknowledged(stop, "done").await;
        harness.sidecar.ended().await;
    }
}

#[tokio::test]
async fn interrupt_refuses_the_message_of_a_turn_that_has_not_begun() {
    let limited = error("rate_limited", json!({ "retryAfterMs": 20_000 }));
    let harness = Harness::empty().await;
    harness.begin(super::begin(&json!({ "spawn": [limited] }), None, false));
    let sent = harness.gateway.send(message("do it", MessagePriority::Queued));
    harness.gateway.sees("notice rate_limited").await;
    let interrupt = harness.gateway.send(Command::Interrupt {});
    harness.gateway.acknowledged(interrupt, "done").await;
    harness.gateway.acknowledged(sent, "turn-over").await;
}

#[tokio::test]
async fn message_that_the_shim_does_not_take_follows_the_turn() {
    let inject = json!([error("invalid_state", json!({}))]);
    let script = json!({ "inject-context": inject, "turn": [said("begun"), { "hear": true }, { "checkpoint": true }, completed()] });
    let harness = Harness::playing(script).await;
    harness.gateway.sees("assistant_message text begun").await;
    harness.gateway.send(message("first", MessagePriority::Immediate));
    harness.gateway.sees("notice message_not_taken").await;
    harness.gateway.send(message("second", MessagePriority::Immediate));
    harness.gateway.sees("assistant_message text heard \"second\"").await;
    harness.gateway.sees("assistant_message text resumed at 7 with \"first\"").await;
}

#[tokio::test]
async fn message_without_an_answer_of_the_shim_is_not_sent_again() {
    let script = json!({ "inject-context": "mute",
        "turn": [said("begun"), { "hear": true }, { "checkpoint": true }, completed()] });
    let harness = Harness::playing(script).await;
    harness.gateway.sees("assistant_message text begun").await;
    let sent = harness.gateway.send(message("first", MessagePriority::Immediate));
    harness.gateway.sees("notice message_uncertain").await;
    harness.gateway.acknowledged(sent, "delivery-uncertain").await;
    harness.gateway.sees("turn_completed").await;
    harness.gateway.send(message("second", MessagePriority::Queued));
    harness.gateway.sees("assistant_message text resumed at 7 with \"second\"").await;
    let story = harness.gateway.story();
    let texts: Vec<_> = story.iter().filter(|event| event.contains("\"first\"")).collect();
    assert_eq!(texts, ["assistant_message text heard \"first\""], "{story:#?}");
}

/// Begins a turn that asks for a permission, and allows it. Returns the command with the answer.
async fn allowed(resolve: Value) -> (Harness, CommandId) {
    let script = json!({ "resolve": resolve, "turn": [approval(), { "hear": true }, completed()] });
    let harness = logged(&script).await;
    let at = harness.gateway.sees("question_asked").await;
    let asked = harness.gateway.delivered().swap_remove(at);
    let answer = harness.gateway.decide(&asked, "Allow", None);
    (harness, answer)
}

#[tokio::test]
async fn refused_resolution_is_repeated_as_the_error_says() {
    let limited = error("rate_limited", json!({ "retryAfterMs": 100 }));
    let unavailable = error("provider_unavailable", json!({ "retryable": true }));
    let (harness, answer) = allowed(json!([unavailable, limited])).await;
    harness.gateway.acknowledged(answer, "done").await;
    harness.gateway.sees("turn_completed").await;
    harness.gateway.sees("notice provider_unavailable").await;
    harness.gateway.sees("notice rate_limited").await;
    let story = harness.gateway.story();
    let heard = story.iter().filter(|event| event.contains("heard")).count();
    assert!(heard == 1 && !story.contains(&"notice decision_not_taken".to_owned()), "{story:#?}");
}

#[tokio::test]
async fn resolution_that_is_refused_each_time_fails_the_turn() {
    let limited = error("rate_limited", json!({ "retryAfterMs": 10 }));
    let (harness, _) = allowed(json!(vec![limited; 20])).await;
    let (reason, why) = end(&harness).await;
    assert!(reason == "resolve_failed" && why.contains("limits the rate"), "{reason} {why}");
}

/// The shim has settled the decision in another way (S2, "Error handling contract").
#[tokio::test]
async fn stale_answer_is_refused_and_the_turn_continues() {
    let settled = error("decision_not_found", json!({ "decisionId": "c1" }));
    let (harness, answer) = allowed(json!([settled])).await;
    let refusal = harness.gateway.acknowledged(answer, "invalid").await;
    assert_eq!(refusal.body["message"], "the agent does not wait for this");
    let log = std::fs::read_to_string(harness.folders.root().join("sidecar.log")).unwrap();
    let warns = |line: &str| line.contains("WARN") && line.contains("no decision `c1` waits");
    assert!(log.lines().any(warns), "{log}");
    harness.gateway.send(message("go on", MessagePriority::Immediate));
    harness.gateway.sees("assistant_message text heard \"go on\"").await;
    harness.gateway.sees("turn_completed").await;
    let story = harness.gateway.story();
    let heard = story.iter().filter(|event| event.contains("heard")).count();
    let is_reported = |event: &String| event.starts_with("notice") || event.starts_with("session_end");
    assert!(heard == 1 && !story.iter().any(is_reported), "it is not sent again: {story:#?}");
}

#[tokio::test]
async fn resolution_without_an_answer_of_the_shim_fails_the_turn() {
    for (resolve, says) in [("hang", "did not answer within 1 s"), ("garbage", "is not valid")] {
        let (harness, _) = allowed(resolve.into()).await;
        let (reason, why) = end(&harness).await;
        assert!(reason == "resolve_failed" && why.contains(says), "{resolve}: {reason} {why}");
    }
}

#[tokio::test]
async fn agent_that_waits_for_a_repeated_resolution_can_be_paused_and_interrupted() {
    let limited = error("rate_limited", json!({ "retryAfterMs": 600_000 }));
    let (harness, answer) = allowed(json!([limited])).await;
    harness.gateway.acknowledged(answer, "done").await;
    for command in [Command::Pause {}, Command::Resume {}, Command::Interrupt {}] {
        let id = harness.gateway.send(command);
        harness.gateway.acknowledged(id, "done").await;
    }
    harness.gateway.send(message("next", MessagePriority::Queued));
    harness.gateway.sees("assistant_message text resumed at 7 with \"next\"").await;
}
