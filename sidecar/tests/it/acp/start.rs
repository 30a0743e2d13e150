//! Commands take effect while an agent starts. The agent is a fake that answers late or never: each of its processes waits until the
//! test opens a gate.

use nix::sys::stat::Mode;
use pilothouse_domain::CommandId;
use pilothouse_domain::value::MessagePriority;
use pilothouse_wire::Command;

use super::{Harness, fake, workspace};
use crate::gateway::{GIF, Gateway, PNG, base64};
use crate::sidecar::{message, message_with};

/// An agent that was started by `begin` and has answered nothing.
async fn starting(can: &str, prompt: &str) -> (Harness, CommandId) {
    starting_with(can, prompt, &[]).await
}

/// Like [`starting`], with images of the prompt.
async fn starting_with(can: &str, prompt: &str, images: &[&[u8]]) -> (Harness, CommandId) {
    let harness = Harness::empty().await;
    let gate = workspace(&harness.folders).join("gate");
    nix::unistd::mkfifo(&gate, Mode::from_bits_truncate(0o600)).unwrap();
    let images = images.iter().map(|bytes| harness.gateway.image(bytes)).collect();
    let begin =
        harness.begin(fake(&format!("late,{can}")), false, Some(prompt), |begin| begin.images = images);
    harness.started(1).await;
    (harness, begin)
}

impl Harness {
    /// Waits until this many processes have started. Returns the id of the last one.
    async fn started(&self, count: usize) -> String {
        let started = workspace(&self.folders).join("started");
        let last = |_: &Gateway| {
            let started = std::fs::read_to_string(&started).ok()?;
            (started.lines().count() == count).then(|| started.lines().last().map(str::to_owned))?
        };
        self.gateway.until("a start of the agent", last).await
    }

    fn open_gate(&self) {
        std::fs::write(workspace(&self.folders).join("gate"), "go\n").unwrap();
    }

    async fn is_gone(&self, process: &str) {
        let stat = format!("/proc/{process}/stat");
        let is_gone = |_: &Gateway| {
            let runs = std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
            (!runs).then_some(())
        };
        self.gateway.until("the end of a process", is_gone).await;
    }
}

#[tokio::test]
async fn stop_ends_an_agent_that_never_answers() {
    let (harness, begin) = starting("", "say hello").await;
    let process = harness.started(1).await;
    harness.gateway.send_until_done(Command::Stop {}).await;
    harness.is_gone(&process).await;
    harness.gateway.acknowledged(begin, "no-agent").await;
}

#[tokio::test]
async fn agent_paused_during_its_start_works_after_the_resume() {
    let (harness, begin) = starting("", "say hello").await;
    harness.gateway.send_until_done(Command::Pause {}).await;
    assert!(!harness.gateway.has_seen("begin_ack done"), "the agent has not answered");
    harness.open_gate();
    harness.gateway.acknowledged(begin, "done").await;
    harness.gateway.time_passes().await;
    assert!(!harness.gateway.has_seen("turn_started"), "{:#?}", harness.reported_lines());
    harness.gateway.send_until_done(Command::Resume {}).await;
    harness.gateway.sees("turn_completed").await;
    assert!(harness.gateway.position_of("resume_ack done") < harness.gateway.position_of("turn_started"));
    assert_eq!(
        harness.reported_lines().iter().filter(|line| **line == "assistant_message text hello").count(),
        1
    );
}

#[tokio::test]
async fn interrupt_during_the_start_withdraws_prompt_and_messages() {
    let (harness, begin) = starting("", "say hello").await;
    let sent = harness.gateway.send(message("say more", MessagePriority::Queued));
    harness.gateway.acknowledged(sent, "received").await;
    harness.gateway.send_until_done(Command::Interrupt {}).await;
    harness.gateway.acknowledged(sent, "interrupted").await;
    assert!(!harness.gateway.has_seen("begin_ack done"), "the agent has not answered");
    harness.open_gate();
    harness.gateway.acknowledged(begin, "done").await;
    harness.gateway.time_passes().await;
    assert!(!harness.gateway.has_seen("turn_started"), "{:#?}", harness.reported_lines());
    // The fake repeats what precedes a message.
    harness.gateway.send(message("introduction", MessagePriority::Queued));
    harness.gateway.sees("turn_completed").await;
    assert!(harness.gateway.has_seen("assistant_message text say hello"), "{:#?}", harness.reported_lines());
    assert!(!harness.gateway.has_seen("assistant_message text more"), "{:#?}", harness.reported_lines());
}

#[tokio::test]
async fn next_run_learns_the_task_of_a_conversation_without_prompts() {
    let (harness, begin) = starting("load", "say hello").await;
    harness.gateway.send_until_done(Command::Interrupt {}).await;
    harness.open_gate();
    harness.gateway.acknowledged(begin, "done").await;
    let harness = harness.next_run().await;
    harness.begin(fake("late,load"), true, None, |_| {});
    harness.started(2).await;
    harness.open_gate();
    // The fake repeats what precedes a message.
    harness.gateway.send(message("introduction", MessagePriority::Queued));
    harness.gateway.sees("turn_completed").await;
    let lines = harness.reported_lines();
    assert!(lines.iter().any(|line| line.contains("<task>\nwrite a poem\n</task>")), "{lines:#?}");
}

#[tokio::test]
async fn prompt_of_a_pause_or_an_interrupt_keeps_its_images() {
    let (harness, begin) = starting_with("image", "images", &[PNG]).await;
    harness.gateway.send_until_done(Command::Pause {}).await;
    harness.open_gate();
    harness.gateway.acknowledged(begin, "done").await;
    harness.gateway.send_until_done(Command::Resume {}).await;
    harness.gateway.sees(&format!("assistant_message text seen: image/png {}", base64(PNG))).await;

    let (harness, begin) = starting_with("image", "say hello", &[PNG]).await;
    harness.gateway.send_until_done(Command::Interrupt {}).await;
    harness.open_gate();
    harness.gateway.acknowledged(begin, "done").await;
    let shown = harness.gateway.image(GIF);
    harness.gateway.send(message_with("images", vec![shown], MessagePriority::Queued));
    let both = format!("image/png {} image/gif {}", base64(PNG), base64(GIF));
    harness.gateway.sees(&format!("assistant_message text seen: {both}")).await;
}

#[tokio::test]
async fn message_during_the_start_arrives_once() {
    let (harness, _) = starting("", "say hello").await;
    let sent = harness.gateway.send(message("say more", MessagePriority::Queued));
    harness.gateway.acknowledged(sent, "received").await;
    harness.open_gate();
    harness.gateway.acknowledged(sent, "injected").await;
    harness.gateway.sees_nth("turn_completed", 2).await;
    let lines = harness.reported_lines();
    for said in ["hello", "more"] {
        let text = format!("assistant_message text {said}");
        assert_eq!(lines.iter().filter(|line| **line == text).count(), 1, "{lines:#?}");
    }
}

/// An agent that has ended after its first turn, and starts again for a message.
async fn starting_again() -> (Harness, CommandId) {
    starting_again_for("say again", &[]).await
}

async fn starting_again_for(text: &str, images: &[&[u8]]) -> (Harness, CommandId) {
    let (harness, _) = starting("load,image", "leave").await;
    harness.open_gate();
    harness.gateway.sees("turn_completed").await;
    harness.gateway.sees("notice agent_ended").await;
    let images = images.iter().map(|bytes| harness.gateway.image(bytes)).collect();
    let sent = harness.gateway.send(message_with(text, images, MessagePriority::Queued));
    harness.started(2).await;
    (harness, sent)
}

#[tokio::test]
async fn pause_ends_a_later_start_and_the_resume_repeats_it() {
    let (harness, sent) = starting_again().await;
    let process = harness.started(2).await;
    harness.gateway.send_until_done(Command::Pause {}).await;
    harness.is_gone(&process).await;
    assert!(!harness.gateway.has_seen("message_ack injecting"), "{:#?}", harness.reported_lines());
    harness.gateway.send_until_done(Command::Resume {}).await;
    harness.started(3).await;
    harness.open_gate();
    harness.gateway.acknowledged(sent, "injected").await;
    harness.gateway.sees_nth("turn_completed", 2).await;
    assert_eq!(
        harness.reported_lines().iter().filter(|line| **line == "assistant_message text again").count(),
        1
    );
}

#[tokio::test]
async fn message_whose_start_a_pause_ended_keeps_its_images() {
    let (harness, _) = starting_again_for("images", &[PNG]).await;
    let process = harness.started(2).await;
    harness.gateway.send_until_done(Command::Pause {}).await;
    harness.is_gone(&process).await;
    harness.gateway.send_until_done(Command::Resume {}).await;
    harness.started(3).await;
    harness.open_gate();
    harness.gateway.sees(&format!("assistant_message text seen: image/png {}", base64(PNG))).await;
}

#[tokio::test]
async fn interrupt_ends_a_later_start_and_refuses_its_message() {
    let (harness, sent) = starting_again().await;
    let process = harness.started(2).await;
    harness.gateway.send_until_done(Command::Interrupt {}).await;
    harness.is_gone(&process).await;
    harness.gateway.acknowledged(sent, "interrupted").await;
    harness.gateway.send(message("say something else", MessagePriority::Queued));
    harness.started(3).await;
    harness.open_gate();
    harness.gateway.sees_nth("turn_completed", 2).await;
    assert!(
        harness.gateway.has_seen("assistant_message text something else")
            && !harness.gateway.has_seen("assistant_message text again")
    );
}
