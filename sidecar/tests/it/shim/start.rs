//! Commands take effect while a shim starts. The shim is a fake that gets healthy late or never: it waits until the test opens its gate.

use nix::sys::stat::Mode;
use pilothouse_domain::CommandId;
use pilothouse_domain::value::MessagePriority;
use pilothouse_wire::Command;
use pilothouse_wire::command::Begin;
use serde_json::{Value, json};

use super::{Stage, begin, completed, said};
use crate::gateway::Gateway;
use crate::sidecar::message;

/// A shim whose first start waits at the gate.
async fn starting() -> (Stage, CommandId) {
    let stage = with_gate(json!({ "start": "gate", "turn": [{ "describe": true }, completed()] })).await;
    stage.0.has_started(1).await;
    stage
}

async fn with_gate(script: Value) -> (Stage, CommandId) {
    let stage = Stage::empty().await;
    nix::unistd::mkfifo(&stage.folders.work().join("gate"), Mode::from_bits_truncate(0o600)).unwrap();
    let id = stage.begin(patient(&script, Some("do it"), false));
    (stage, id)
}

/// A `begin` that waits long for the start.
fn patient(script: &Value, prompt: Option<&str>, resume: bool) -> Begin {
    let mut begin = begin(script, prompt, resume);
    begin.config.adapter_options["startSeconds"] = 50.into();
    begin
}

impl Stage {
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
    let (stage, begin) = starting().await;
    stage.gateway.send_until_done(Command::Stop {}).await;
    stage.gateway.acknowledged(begin, "no-agent").await;
}

#[tokio::test]
async fn shim_paused_during_its_start_works_after_the_resume() {
    let (stage, begin) = starting().await;
    stage.gateway.send_until_done(Command::Pause {}).await;
    assert!(!stage.gateway.has_seen("begin_ack done"), "the shim is not healthy");
    stage.open_gate();
    stage.gateway.acknowledged(begin, "done").await;
    stage.gateway.time_passes().await;
    assert!(!stage.gateway.has_seen("turn_started"), "{:#?}", stage.gateway.story());
    stage.gateway.send_until_done(Command::Resume {}).await;
    stage.gateway.sees("turn_completed").await;
    assert!(stage.gateway.position_of("resume_ack done") < stage.gateway.position_of("turn_started"));
}

#[tokio::test]
async fn interrupt_during_the_start_of_a_shim_withdraws_its_prompt() {
    let (stage, begin) = starting().await;
    let sent = stage.gateway.send(message("more", MessagePriority::Queued));
    stage.gateway.acknowledged(sent, "received").await;
    stage.gateway.send_until_done(Command::Interrupt {}).await;
    stage.gateway.acknowledged(sent, "interrupted").await;
    stage.open_gate();
    stage.gateway.acknowledged(begin, "done").await;
    stage.gateway.time_passes().await;
    assert!(!stage.gateway.has_seen("turn_started"), "{:#?}", stage.gateway.story());
    stage.gateway.send(message("go on", MessagePriority::Queued));
    stage.gateway.sees("turn_completed").await;
    assert!(
        stage.gateway.has_seen("assistant_message text told to do it\n\ngo on"),
        "{:#?}",
        stage.gateway.story()
    );
}

#[tokio::test]
async fn resumed_agent_learns_a_withdrawn_prompt_with_the_next_message() {
    let script = json!({ "start-again": "gate", "turn": [said("begun"), { "forever": true }] });
    let (stage, _) = with_gate(script.clone()).await;
    stage.gateway.sees("assistant_message text begun").await;
    stage.gateway.send_until_done(Command::Interrupt {}).await;
    let stage = stage.next_run().await;
    let begin = stage.begin(patient(&script, Some("do more"), true));
    stage.has_started(2).await;
    stage.gateway.send_until_done(Command::Interrupt {}).await;
    stage.open_gate();
    stage.gateway.acknowledged(begin, "done").await;
    stage.gateway.send(message("go on", MessagePriority::Queued));
    stage.gateway.sees("assistant_message text resumed at 7 with \"do more\\n\\ngo on\"").await;
}

#[tokio::test]
async fn next_run_learns_the_task_that_no_agent_had() {
    let script = json!({ "start": "gate", "turn": [{ "describe": true }, completed()] });
    let (stage, begin) = with_gate(script.clone()).await;
    stage.has_started(1).await;
    stage.gateway.send_until_done(Command::Interrupt {}).await;
    stage.open_gate();
    stage.gateway.acknowledged(begin, "done").await;
    let next = patient(&script, None, true);
    // Saves the state of the conversation.
    stage.gateway.send_until_done(Command::ReloadConfig { config: Box::new(next.config.clone()) }).await;
    let stage = stage.next_run().await;
    stage.begin(next);
    stage.gateway.send(message("go on", MessagePriority::Queued));
    stage.gateway.sees("turn_completed").await;
    let story = stage.gateway.story();
    assert!(story.iter().any(|line| line.contains("<task>\nwrite a poem\n</task>")), "{story:#?}");
}

#[tokio::test]
async fn prompt_survives_an_interrupt_before_the_agent_has_it() {
    let busy = json!({ "code": "invalid_state", "message": "busy" });
    let script =
        json!({ "spawn": [busy], "start-again": "gate", "turn": [{ "describe": true }, completed()] });
    let (stage, _) = with_gate(script).await;
    stage.has_started(2).await;
    stage.gateway.send_until_done(Command::Interrupt {}).await;
    stage.gateway.send(message("go on", MessagePriority::Queued));
    stage.has_started(3).await;
    stage.open_gate();
    stage.gateway.sees("assistant_message text told to do it\n\ngo on").await;
}

/// A shim that was ended by an interrupt, and starts again for a message.
async fn starting_again() -> (Stage, CommandId) {
    let script = json!({ "start-again": "gate", "turn": [said("begun"), { "forever": true }] });
    let (stage, _) = with_gate(script).await;
    stage.gateway.sees("assistant_message text begun").await;
    stage.gateway.send_until_done(Command::Interrupt {}).await;
    let sent = stage.gateway.send(message("next", MessagePriority::Queued));
    stage.has_started(2).await;
    (stage, sent)
}

#[tokio::test]
async fn pause_ends_a_later_start_of_a_shim_and_the_resume_repeats_it() {
    let (stage, sent) = starting_again().await;
    stage.gateway.send_until_done(Command::Pause {}).await;
    assert!(!stage.gateway.has_seen("message_ack injected"), "{:#?}", stage.gateway.story());
    stage.gateway.send_until_done(Command::Resume {}).await;
    stage.has_started(3).await;
    stage.open_gate();
    stage.gateway.acknowledged(sent, "injected").await;
    stage.gateway.sees("assistant_message text resumed at 7 with \"next\"").await;
}

#[tokio::test]
async fn interrupt_ends_a_later_start_of_a_shim_with_its_turn() {
    let (stage, sent) = starting_again().await;
    stage.gateway.send_until_done(Command::Interrupt {}).await;
    stage.gateway.acknowledged(sent, "turn-over").await;
    stage.gateway.send(message("another", MessagePriority::Queued));
    stage.has_started(3).await;
    stage.open_gate();
    stage.gateway.sees("assistant_message text resumed at 7 with \"another\"").await;
}
