//! Commands take effect while a shim starts. The shim is a fake that gets healthy late or never: it waits until the test opens its gate.

use nix::sys::stat::Mode;
use pilothouse_domain::CommandId;
use pilothouse_domain::value::MessagePriority;
use pilothouse_wire::Command;
use pilothouse_wire::command::Begin;
use serde_json::{Value, json};

use super::{Harness, begin, completed, said};
use crate::gateway::Gateway;
use crate::sidecar::message;

/// A shim whose first start waits at the gate.
async fn starting() -> (Harness, CommandId) {
    let harness = with_gate(json!({ "start": "gate", "turn": [{ "describe": true }, completed()] })).await;
    harness.0.has_started(1).await;
    harness
}

async fn with_gate(script: Value) -> (Harness, CommandId) {
    let harness = Harness::empty().await;
    nix::unistd::mkfifo(&harness.folders.work().join("gate"), Mode::from_bits_truncate(0o600)).unwrap();
    let id = harness.begin(patient(&script, Some("do it"), false));
    (harness, id)
}

/// A `begin` that waits long for the start.
fn patient(script: &Value, prompt: Option<&str>, resume: bool) -> Begin {
    let mut begin = begin(script, prompt, resume);
    begin.config.adapter_options["startSeconds"] = 50.into();
    begin
}

impl Harness {
    async fn has_started(&self, count: usize) {
        let started = |_: &Gateway| (self.starts() == count).then_some(());
        self.gateway.until("a start of the shim", started).await;
    }

    fn open_gate(&self) {
        std::fs::write(self.folders.work().join("gate"), "go\n").unwrap();
    }
}

#[tokio::test]
async fn stop_ends_a_shim_that_never_gets_healthy() {
    let (harness, begin) = starting().await;
    harness.gateway.send_until_done(Command::Stop {}).await;
    harness.gateway.acknowledged(begin, "no-agent").await;
}

#[tokio::test]
async fn shim_paused_during_its_start_works_after_the_resume() {
    let (harness, begin) = starting().await;
    harness.gateway.send_until_done(Command::Pause {}).await;
    assert!(!harness.gateway.has_seen("begin_ack done"), "the shim is not healthy");
    harness.open_gate();
    harness.gateway.acknowledged(begin, "done").await;
    harness.gateway.time_passes().await;
    assert!(!harness.gateway.has_seen("turn_started"), "{:#?}", harness.gateway.story());
    harness.gateway.send_until_done(Command::Resume {}).await;
    harness.gateway.sees("turn_completed").await;
    assert!(harness.gateway.position_of("resume_ack done") < harness.gateway.position_of("turn_started"));
}

#[tokio::test]
async fn interrupt_during_the_start_of_a_shim_withdraws_its_prompt() {
    let (harness, begin) = starting().await;
    let sent = harness.gateway.send(message("more", MessagePriority::Queued));
    harness.gateway.acknowledged(sent, "received").await;
    harness.gateway.send_until_done(Command::Interrupt {}).await;
    harness.gateway.acknowledged(sent, "interrupted").await;
    harness.open_gate();
    harness.gateway.acknowledged(begin, "done").await;
    harness.gateway.time_passes().await;
    assert!(!harness.gateway.has_seen("turn_started"), "{:#?}", harness.gateway.story());
    harness.gateway.send(message("go on", MessagePriority::Queued));
    harness.gateway.sees("turn_completed").await;
    assert!(
        harness.gateway.has_seen("assistant_message text lines to do it\n\ngo on"),
        "{:#?}",
        harness.gateway.story()
    );
}

#[tokio::test]
async fn resumed_agent_learns_a_withdrawn_prompt_with_the_next_message() {
    let script = json!({ "start-again": "gate", "turn": [said("begun"), { "forever": true }] });
    let (harness, _) = with_gate(script.clone()).await;
    harness.gateway.sees("assistant_message text begun").await;
    harness.gateway.send_until_done(Command::Interrupt {}).await;
    let harness = harness.next_run().await;
    let begin = harness.begin(patient(&script, Some("do more"), true));
    harness.has_started(2).await;
    harness.gateway.send_until_done(Command::Interrupt {}).await;
    harness.open_gate();
    harness.gateway.acknowledged(begin, "done").await;
    harness.gateway.send(message("go on", MessagePriority::Queued));
    harness.gateway.sees("assistant_message text resumed at 7 with \"do more\\n\\ngo on\"").await;
}

#[tokio::test]
async fn next_run_learns_the_task_that_no_agent_had() {
    let script = json!({ "start": "gate", "turn": [{ "describe": true }, completed()] });
    let (harness, begin) = with_gate(script.clone()).await;
    harness.has_started(1).await;
    harness.gateway.send_until_done(Command::Interrupt {}).await;
    harness.open_gate();
    harness.gateway.acknowledged(begin, "done").await;
    let next = patient(&script, None, true);
    // Saves the state of the conversation.
    harness.gateway.send_until_done(Command::ReloadConfig { config: Box::new(next.config.clone()) }).await;
    let harness = harness.next_run().await;
    harness.begin(next);
    harness.gateway.send(message("go on", MessagePriority::Queued));
    harness.gateway.sees("turn_completed").await;
    let story = harness.gateway.story();
    assert!(story.iter().any(|line| line.contains("<task>\nwrite a poem\n</task>")), "{story:#?}");
}

#[tokio::test]
async fn prompt_survives_an_interrupt_before_the_agent_has_it() {
    let busy = json!({ "code": "invalid_state", "message": "busy" });
    let script =
        json!({ "spawn": [busy], "start-again": "gate", "turn": [{ "describe": true }, completed()] });
    let (harness, _) = with_gate(script).await;
    harness.has_started(2).await;
    harness.gateway.send_until_done(Command::Interrupt {}).await;
    harness.gateway.send(message("go on", MessagePriority::Queued));
    harness.has_started(3).await;
    harness.open_gate();
    harness.gateway.sees("assistant_message text lines to do it\n\ngo on").await;
}

/// A shim that was ended by an interrupt, and starts again for a message.
async fn starting_again() -> (Harness, CommandId) {
    let script = json!({ "start-again": "gate", "turn": [said("begun"), { "forever": true }] });
    let (harness, _) = with_gate(script).await;
    harness.gateway.sees("assistant_message text begun").await;
    harness.gateway.send_until_done(Command::Interrupt {}).await;
    let sent = harness.gateway.send(message("next", MessagePriority::Queued));
    harness.has_started(2).await;
    (harness, sent)
}

#[tokio::test]
async fn pause_ends_a_later_start_of_a_shim_and_the_resume_repeats_it() {
    let (harness, sent) = starting_again().await;
    harness.gateway.send_until_done(Command::Pause {}).await;
    assert!(!harness.gateway.has_seen("message_ack injected"), "{:#?}", harness.gateway.story());
    harness.gateway.send_until_done(Command::Resume {}).await;
    harness.has_started(3).await;
    harness.open_gate();
    harness.gateway.acknowledged(sent, "injected").await;
    harness.gateway.sees("assistant_message text resumed at 7 with \"next\"").await;
}

#[tokio::test]
async fn interrupt_ends_a_later_start_of_a_shim_with_its_turn() {
    let (harness, sent) = starting_again().await;
    harness.gateway.send_until_done(Command::Interrupt {}).await;
    harness.gateway.acknowledged(sent, "turn-over").await;
    harness.gateway.send(message("another", MessagePriority::Queued));
    harness.has_started(3).await;
    harness.open_gate();
    harness.gateway.sees("assistant_message text resumed at 7 with \"another\"").await;
}

#[tokio::test]
async fn subagents_of_skills_are_left_out_with_a_notice() {
    let harness = Harness::empty().await;
    let mut begin = begin(&json!({ "turn": [completed()] }), Some("do it"), false);
    let tester = json!([{ "name": "tester", "description": "d", "modelId": "m", "instructions": "i" }]);
    begin.config.sub_agents = serde_json::from_value(tester).unwrap();
    harness.begin(begin);
    let left_out = harness.event("notice sub_agents_left_out").await;
    assert!(left_out["summary"].as_str().unwrap().contains("tester"), "{left_out}");
    harness.gateway.sees("turn_completed").await;
}
