//! Failing agents, and corner cases of the protocol.

use nix::sys::signal::Signal;
use pilothouse_domain::Timestamp;
use pilothouse_domain::value::{ContextPolicy, DraftKind, MessagePriority};
use pilothouse_wire::Command;
use pilothouse_wire::command::Begin;
use serde_json::{Value, json};

use super::agent::VERY_MUCH;
use super::{Harness, fake, workspace};
use crate::sidecar::message;

async fn refused(options: Value) -> String {
    let harness = Harness::empty().await;
    let begin = harness.begin(options, false, Some("say x"), |_| {});
    let refusal = harness.gateway.acknowledged(begin, "invalid").await;
    refusal.body["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn unusable_agent_is_refused_in_one_sentence() {
    for (options, says) in [
        (json!({"agent": "nobody"}), "known agents are"),
        (json!({"command": "/nowhere/agent"}), "cannot be run"),
        (json!({"command": "/bin/sh", "args": ["-c", "echo broken >&2; exit 7"]}), "broken"),
        (fake("v9"), "version 9"),
        (fake("auth"), "demands authentication"),
    ] {
        let sentence = refused(options).await;
        assert!(sentence.contains(says) && !sentence.contains('\n'), "{sentence}");
    }
}

#[tokio::test]
async fn crash_in_a_turn_closes_its_calls_and_ends_the_conversation() {
    let harness = Harness::playing("", "crash").await;
    let end = harness.event("session_end").await;
    assert_eq!(end["isError"], true);
    assert!(end["message"].as_str().unwrap().contains("my last words"), "{end}");
    let result = harness.event("tool_result").await;
    assert_eq!((&result["isError"], result["toolCallId"].as_str()), (&true.into(), Some("c4")));
    let id = harness.gateway.send(message("say x", MessagePriority::Queued));
    harness.gateway.acknowledged(id, "no-agent").await;
}

#[tokio::test]
async fn message_that_the_agent_may_have_read_is_not_sent_again() {
    let harness = Harness::playing("load,steer,silent", "read-and-leave").await;
    harness.gateway.sees("turn_started").await;
    let steering = harness.gateway.send(message("say faster", MessagePriority::Immediate));
    harness.gateway.acknowledged(steering, "injecting").await;
    harness.gateway.sees("turn_completed").await;
    harness.gateway.sees("notice agent_ended").await;
    harness.gateway.acknowledged(steering, "delivery-uncertain").await;
    harness.gateway.send(message("say again", MessagePriority::Queued));
    harness.gateway.sees_nth("turn_completed", 2).await;
    assert!(
        !harness.reported_lines().iter().any(|s| s.contains("faster")),
        "{:#?}",
        harness.reported_lines()
    );
}

#[tokio::test]
async fn agent_error_ends_the_conversation_with_its_text() {
    let harness = Harness::playing("", "fail").await;
    let end = harness.event("session_end").await;
    assert_eq!((&end["isError"], end["reason"].as_str()), (&true.into(), Some("prompt_failed")));
    assert!(end["message"].as_str().unwrap().contains("the model said no"));
}

#[tokio::test]
async fn rate_limit_keeps_the_turn_open_until_resumed() {
    let harness = Harness::playing("", "overloaded").await;
    for time in 1..=2 {
        harness.gateway.sees_nth("model_unavailable", time).await;
        let pause = harness.gateway.send(Command::Pause {});
        harness.gateway.acknowledged(pause, "done").await;
        let resume = harness.gateway.send(Command::Resume {});
        harness.gateway.acknowledged(resume, "done").await;
    }
    harness.gateway.sees("turn_completed").await;
    let unavailable = harness.event("model_unavailable").await;
    assert!(unavailable["message"].as_str().unwrap().contains("429"), "{unavailable}");
    let retry_at = unavailable["retryAt"].as_str().unwrap().parse::<Timestamp>().unwrap().as_secs();
    let now = i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_secs()).unwrap();
    assert!(retry_at > now + 1000, "the provider requests 20 minutes: {unavailable}");
    let lines = harness.reported_lines();
    let count = |what: &str| lines.iter().filter(|line| line.starts_with(what)).count();
    assert_eq!((count("turn_started"), count("session_end")), (1, 0), "{lines:#?}");
    // The first prompt was repeated. The second had an effect, so the agent is asked to continue.
    let last = lines.iter().rev().find(|line| line.contains("at last")).unwrap();
    assert!(last.contains("Continue where you stopped"), "{lines:#?}");
}

#[tokio::test]
async fn turn_that_waits_for_its_model_can_be_interrupted() {
    let harness = Harness::playing("", "overloaded").await;
    harness.event("model_unavailable").await;
    let interrupt = harness.gateway.send(Command::Interrupt {});
    harness.gateway.acknowledged(interrupt, "done").await;
    harness.gateway.send(message("say it", MessagePriority::Queued));
    harness.gateway.sees("turn_completed").await;
}

#[tokio::test]
async fn agent_that_ends_while_it_waits_for_its_model_starts_again() {
    let harness = Harness::playing("", "give-up").await;
    harness.event("model_unavailable").await;
    std::fs::write(workspace(&harness.folders).join("end"), "").unwrap();
    harness.gateway.sees("notice agent_ended").await;
    let resume = harness.gateway.send(Command::Resume {});
    harness.gateway.acknowledged(resume, "done").await;
    harness.gateway.sees_nth("model_unavailable", 2).await;
    let lines = harness.reported_lines();
    let count = |what: &str| lines.iter().filter(|line| line.starts_with(what)).count();
    assert_eq!((count("turn_started"), count("session_end")), (1, 0), "{lines:#?}");
}

#[tokio::test]
async fn nearly_full_window_produces_the_handoff_document() {
    let harness = Harness::playing("", "fill 95").await;
    let end = harness.event("session_end").await;
    assert_eq!((&end["isError"], end["reason"].as_str()), (&false.into(), Some("context_exhausted")));
    let story = harness.reported_lines();
    let at = |what: &str| {
        story.iter().position(|line| line.starts_with(what)).unwrap_or_else(|| panic!("{what} {story:#?}"))
    };
    assert!(at("handoff_document") < at("context_exhausted"));
    assert_eq!(harness.event("handoff_document").await["remainingWork"], "Do b.");
    assert!(!story.iter().any(|line| line.starts_with("turn_completed")), "{story:#?}");
}

#[tokio::test]
async fn document_counts_only_when_the_agent_was_asked() {
    let compact = |begin: &mut Begin| begin.config.options.context_policy = ContextPolicy::Compact;
    for (prompt, change) in [("fill 86", None), ("fill 95", Some(compact))] {
        let harness = Harness::empty().await;
        harness.begin(fake(""), false, Some(prompt), |begin| {
            if let Some(change) = change {
                change(begin);
            }
        });
        harness.gateway.sees("turn_completed").await;
        harness.gateway.send(message("document", MessagePriority::Queued));
        harness.gateway.sees_nth("turn_completed", 2).await;
        let story = harness.reported_lines();
        assert!(!story.iter().any(|line| line.starts_with("handoff_document")), "{prompt}: {story:#?}");
    }
}

#[tokio::test]
async fn request_limit_is_an_outcome_of_the_turn() {
    let harness = Harness::playing("", "limit").await;
    assert_eq!(harness.event("turn_completed").await["outcome"], "max_iterations");
}

#[tokio::test]
async fn token_limit_is_an_outcome_of_the_turn() {
    let harness = Harness::playing("", "stop max_tokens").await;
    assert_eq!(harness.event("turn_completed").await["outcome"], "max_iterations");
    let story = harness.reported_lines();
    assert!(story.iter().any(|line| line == "notice max_tokens"), "{story:#?}");
    assert!(!story.iter().any(|line| line == "context_exhausted"), "{story:#?}");
}

#[tokio::test]
async fn token_limit_in_a_full_window_exhausts_the_context() {
    let harness = Harness::empty().await;
    harness.begin(fake(""), false, Some("fill 98"), |begin| {
        begin.config.options.context_policy = ContextPolicy::Compact;
    });
    harness.gateway.sees("turn_completed").await;
    harness.gateway.send(message("stop max_tokens", MessagePriority::Queued));
    harness.gateway.sees("context_exhausted").await;
    harness.gateway.sees("notice max_tokens").await;
    harness.gateway.sees_nth("turn_completed", 2).await;
}

#[tokio::test]
async fn refusal_of_an_agent_is_reported_and_completes_the_turn() {
    let harness = Harness::playing("", "stop refusal").await;
    assert!(
        harness.event("turn_completed").await["outcome"].is_null(),
        "the outcome is the default, completed"
    );
    let story = harness.reported_lines();
    assert!(story.iter().any(|line| line == "notice refusal"), "{story:#?}");
    harness.gateway.send(message("say again", MessagePriority::Queued));
    harness.gateway.sees("assistant_message text again").await;
}

#[tokio::test]
async fn subagents_of_skills_are_left_out_with_a_notice() {
    let harness = Harness::empty().await;
    harness.begin(fake(""), false, Some("say x"), |begin| {
        let tester = json!([{ "name": "tester", "description": "d", "modelId": "m", "instructions": "i" }]);
        begin.config.sub_agents = serde_json::from_value(tester).unwrap();
    });
    let left_out = harness.event("notice sub_agents_left_out").await;
    assert!(left_out["summary"].as_str().unwrap().contains("tester"), "{left_out}");
}

#[tokio::test]
async fn text_of_an_agent_is_shown_before_it_is_complete() {
    let harness = Harness::empty().await;
    harness.gateway.follow();
    harness.begin(fake(""), false, Some("draft"), |_| {});
    harness.gateway.shows_draft(DraftKind::Text, "The teapot.").await;
    let story = harness.reported_lines();
    assert!(!story.iter().any(|line| line.contains("teapot")), "nothing is recorded yet: {story:#?}");
    let interrupt = harness.gateway.send(Command::Interrupt {});
    harness.gateway.acknowledged(interrupt, "done").await;
    harness.gateway.sees("assistant_message text The teapot.").await;
}

#[tokio::test]
async fn unknown_updates_are_harmless() {
    let harness = Harness::playing("", "strange").await;
    harness.gateway.sees("turn_completed").await;
    let story = harness.gateway.story();
    assert!(story.iter().any(|s| s == "assistant_message text refused -32601"), "{story:#?}");
    assert_eq!(story.iter().filter(|s| s.starts_with("notice unknown_from_the_future")).count(), 1);
    let logged = |e: &crate::gateway::Delivered| {
        e.body["content"].as_str().is_some_and(|s| s.contains("a line that is no message"))
    };
    assert!(harness.gateway.delivered().iter().any(|e| e.kind() == "log_chunk" && logged(e)));
}

#[tokio::test]
async fn huge_messages_and_outputs_arrive_whole() {
    let harness = Harness::playing("", "huge").await;
    harness.gateway.sees("turn_completed").await;
    let said: u64 = harness
        .gateway
        .delivered()
        .iter()
        .filter(|e| e.kind() == "assistant_message")
        .map(|e| size(&e.body["content"]["text"]))
        .sum();
    assert_eq!(said, 3 * 1024 * 1024);
    assert_eq!(size(&harness.event("tool_result").await["content"]), 5 * 1024 * 1024);
}

fn size(content: &Value) -> u64 {
    content.as_str().map_or_else(|| content["size"].as_u64().unwrap_or(0), |text| text.len() as u64)
}

#[tokio::test]
async fn files_and_commands_stay_inside_and_output_is_the_result() {
    let harness = Harness::playing("", "files notes/a.txt").await;
    harness.gateway.sees("turn_completed").await;
    assert!(
        harness.reported_lines().iter().any(|s| s == "assistant_message text true true \"two\\n\""),
        "{:#?}",
        harness.reported_lines()
    );
    assert_eq!(
        std::fs::read_to_string(workspace(&harness.folders).join("notes/a.txt")).unwrap(),
        "one\ntwo\n"
    );
    harness.gateway.send(message("terminal", MessagePriority::Queued));
    harness.gateway.sees_nth("turn_completed", 2).await;
    assert_eq!(harness.event("tool_result").await["content"], "out\n");
    assert!(harness.reported_lines().iter().any(|s| s == "assistant_message text exit 4"));
}

#[tokio::test]
async fn file_that_the_agent_does_not_wait_for_is_written_within_its_turn() {
    let harness = Harness::playing("", "write-and-end notes/b.txt").await;
    harness.gateway.sees("assistant_message text meanwhile").await;
    harness.gateway.sees("turn_completed").await;
    let written = std::fs::read(workspace(&harness.folders).join("notes/b.txt")).unwrap();
    assert_eq!(written.len(), VERY_MUCH);
}

#[tokio::test]
async fn conversation_resumes_after_a_kill_without_repeating_history() {
    let harness = Harness::playing("load", "say before").await;
    harness.gateway.sees("turn_completed").await;
    let harness = harness.next_run().await;
    harness.begin(fake("load"), true, Some("say after"), |_| {});
    harness.gateway.sees("turn_completed").await;
    let story = harness.reported_lines();
    assert!(!story.iter().any(|s| s.contains("past") || s.starts_with("tool_result")), "{story:#?}");
    assert!(story.iter().any(|s| s == "assistant_message text after"));
    assert_eq!(harness.event("notice agent_connected").await["detail"]["conversationTakenUp"], true);
    // An agent that cannot resume starts a new conversation and reports it.
    let harness = harness.next_run().await;
    harness.begin(fake(""), true, Some("say anew"), |_| {});
    harness.gateway.sees("turn_completed").await;
    assert!(harness.reported_lines().iter().any(|s| s.starts_with("notice conversation_lost")));
}

#[tokio::test]
async fn instructions_are_sent_once_before_the_first_message() {
    let harness = Harness::empty().await;
    harness.begin(fake("load"), false, Some("introduction"), |begin| {
        begin.config.composed_system_prompt = "Be brief.".into();
    });
    harness.gateway.sees("turn_completed").await;
    let said = harness.event("assistant_message text").await;
    assert!(said["content"]["text"].as_str().unwrap().ends_with("Be brief."));
    let harness = harness.next_run().await;
    harness.begin(fake("load"), true, Some("introduction"), |begin| {
        begin.config.composed_system_prompt = "Be brief.".into();
    });
    harness.gateway.sees("turn_completed").await;
    assert!(!harness.reported_lines().iter().any(|s| s.contains("Be brief")));
}

#[tokio::test]
async fn stop_or_sidecar_kill_leaves_no_agent_process() {
    for signal in [None, Some(Signal::SIGKILL)] {
        let harness = Harness::playing("", "hang").await;
        harness.gateway.sees("assistant_message tool Bash").await;
        let agents = children(harness.sidecar.pid());
        assert!(!agents.is_empty());
        match signal {
            None => {
                let stop = harness.gateway.send(Command::Stop {});
                harness.gateway.acknowledged(stop, "done").await;
            }
            Some(signal) => harness.sidecar.signal(signal),
        }
        let gone = |pid: &u32| !matches!(state(*pid), Some(now) if now != 'Z');
        harness.gateway.until("the end of the agent", |_| agents.iter().all(gone).then_some(())).await;
    }
}

fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

fn children(parent: u32) -> Vec<u32> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let text = std::fs::read_to_string(path).unwrap();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}
