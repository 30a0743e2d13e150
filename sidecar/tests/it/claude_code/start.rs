//! Commands take effect while Claude Code starts. The binary is a fake that answers late or never: it waits until the test opens
//! its gate.

use std::path::{Path, PathBuf};

use nix::sys::stat::Mode;
use pilothouse_domain::CommandId;
use pilothouse_domain::value::{Adjustment, MessagePriority, ThinkingLevel};
use pilothouse_wire::Command;
use serde_json::{Value, json};

use super::fake::{Fake, PROGRAM, init, of_program, replay, says, success};
use crate::gateway::{GIF, Gateway, PNG, base64};
use crate::sidecar::{begin, message, message_with};

/// Notes its arguments and its process id, and waits at the gate `gate` before it reads anything. Fails if there is a file `broken`.
const WAITS: &str = r#"
import os
open("arguments", "a").write(json.dumps(sys.argv) + "\n")
open("started", "a").write(str(os.getpid()) + "\n")
open("gate").read()
if os.path.exists("broken"): sys.exit(3)
"#;

/// Notes each message that it reads.
const NOTES: &str = r#"
    if line["type"] == "user": open("heard", "a").write(json.dumps(line["message"]["content"]) + "\n")
"#;

/// Keeps the first two messages in its queue until they are cancelled.
const KEEPS_TWO: &str = r#"
    if line["type"] == "user" and len(open("heard").readlines()) <= 2: continue
    if line["type"] == "control_request" and line["request"]["subtype"] == "cancel_async_message":
        say({"type": "control_response", "response": {"subtype": "success", "request_id": line["request_id"], "response": {"cancelled": True}}})
        continue
"#;

/// Keeps the first message in its queue, and ends when it is to be cancelled.
const DIES_BY_CANCEL: &str = r#"
    if line["type"] == "user" and len(open("heard").readlines()) <= 1: continue
    if line["type"] == "control_request" and line["request"]["subtype"] == "cancel_async_message": sys.exit(1)
"#;

/// Notes each thinking level that it gets.
const NOTES_THINKING: &str = r#"
    if line["type"] == "control_request" and line["request"]["subtype"] == "set_max_thinking_tokens":
        open("thinking", "a").write("level\n")
"#;

/// Ends the first process, before it answers a message.
const DIES: &str = r#"
    if line["type"] == "user" and not os.path.exists("died"):
        open("died", "w").close()
        sys.exit(1)
"#;

/// The text of a message, after its images.
fn shown(content: &Value) -> String {
    let Some(blocks) = content.as_array() else { return content.as_str().unwrap().to_owned() };
    let block =
        |block: &Value| block["text"].as_str().or(block["source"]["data"].as_str()).unwrap().to_owned();
    blocks.iter().map(block).collect::<Vec<_>>().join(" ")
}

struct Starting {
    fake: Fake,
    begin: CommandId,
}

impl Starting {
    /// A fake that was started by `begin` and has answered nothing.
    async fn new() -> Self {
        Self::playing("", &[]).await
    }

    /// Like [`Self::new`], with code for each line that the fake reads, and images of the task.
    async fn playing(on_line: &str, images: &[&[u8]]) -> Self {
        let turn = |text: &str| json!([init(), replay(), says(text), success()]);
        let steps = json!([turn("one"), turn("two"), turn("three")]);
        let steps = serde_json::to_string(&steps.to_string()).unwrap();
        let program = PROGRAM
            .replace("STEPS", &steps)
            .replace("for line in sys.stdin:", &format!("{WAITS}for line in sys.stdin:"))
            .replace(
                "    line = json.loads(line)\n",
                &format!("    line = json.loads(line){NOTES}{on_line}"),
            );
        let fake = of_program(&program).await;
        let work = fake.folders.work();
        nix::unistd::mkfifo(&work.join("gate"), Mode::from_bits_truncate(0o600)).unwrap();
        let mut begin = begin(json!({}));
        let Command::Begin(given) = &mut begin else { panic!() };
        given.config.working_directory = work.to_str().unwrap().into();
        given.images = images.iter().map(|bytes| fake.gateway.image(bytes)).collect();
        let begin = fake.gateway.send(begin);
        let starting = Self { fake, begin };
        starting.processes(1).await;
        starting
    }

    fn gateway(&self) -> &Gateway {
        &self.fake.gateway
    }

    fn work(&self) -> PathBuf {
        self.fake.folders.work()
    }

    /// Waits until this many processes have started. Returns the id of the last one.
    async fn processes(&self, count: usize) -> String {
        let started = self.work().join("started");
        let last = |_: &Gateway| {
            let started = std::fs::read_to_string(&started).ok()?;
            (started.lines().count() == count).then(|| started.lines().last().map(str::to_owned))?
        };
        self.gateway().until("a start of the agent", last).await
    }

    fn open_gate(&self) {
        std::fs::write(self.work().join("gate"), "go\n").unwrap();
    }

    /// Waits until the fake has read this many messages.
    async fn reads(&self, count: usize) {
        self.gateway().until("messages to the agent", |_| (self.heard().len() == count).then_some(())).await;
    }

    fn heard(&self) -> Vec<String> {
        let heard = std::fs::read_to_string(self.work().join("heard")).unwrap_or_default();
        heard.lines().map(|line| shown(&serde_json::from_str(line).unwrap())).collect()
    }
}

#[tokio::test]
async fn stop_ends_a_start_that_is_never_answered() {
    let starting = Starting::new().await;
    let process = starting.processes(1).await;
    starting.gateway().send_until_done(Command::Stop {}).await;
    assert!(!Path::new(&format!("/proc/{process}")).exists(), "nothing is left when it is done");
    starting.gateway().acknowledged(starting.begin, "no-agent").await;
    assert!(
        !starting.gateway().has_seen("begin_ack done") && !starting.gateway().has_seen("session_end"),
        "{:#?}",
        starting.gateway().story()
    );
}

#[tokio::test]
async fn pause_during_the_start_holds_the_first_message() {
    let starting = Starting::new().await;
    starting.gateway().send_until_done(Command::Pause {}).await;
    assert!(!starting.gateway().has_seen("begin_ack done"), "Claude Code has not answered");
    starting.open_gate();
    starting.gateway().acknowledged(starting.begin, "done").await;
    starting.gateway().time_passes().await;
    assert!(starting.heard().is_empty(), "{:?}", starting.heard());
    // A second pause is confirmed, too.
    starting.gateway().send_until_done(Command::Pause {}).await;
    starting.gateway().send_until_done(Command::Resume {}).await;
    starting.gateway().sees("turn_completed").await;
    assert!(
        starting.gateway().position_of("resume_ack done") < starting.gateway().position_of("turn_started")
    );
    assert_eq!(starting.heard(), ["write a poem"]);
}

#[tokio::test]
async fn resume_during_the_start_lets_the_first_message_begin() {
    let starting = Starting::new().await;
    starting.gateway().send_until_done(Command::Pause {}).await;
    starting.gateway().send_until_done(Command::Resume {}).await;
    starting.open_gate();
    starting.gateway().sees("turn_completed").await;
    assert_eq!(starting.heard(), ["write a poem"]);
}

#[tokio::test]
async fn messages_and_settings_during_the_start_wait_and_arrive_once() {
    let starting = Starting::new().await;
    let sent = starting.gateway().send(message("and a song", MessagePriority::Queued));
    let adjustment = Adjustment::SetThinkingLevel { level: ThinkingLevel::Low };
    let adjusted = starting.gateway().send(Command::Adjust { adjustment });
    starting.gateway().acknowledged(sent, "received").await;
    starting.gateway().acknowledged(adjusted, "received").await;
    assert!(
        !starting.gateway().has_seen("message_ack injecting")
            && !starting.gateway().has_seen("adjust_ack done")
    );
    starting.open_gate();
    starting.gateway().acknowledged(adjusted, "done").await;
    starting.gateway().acknowledged(sent, "injected").await;
    starting.gateway().sees_nth("turn_completed", 2).await;
    assert_eq!(starting.heard(), ["write a poem", "and a song"]);
}

#[tokio::test]
async fn interrupt_during_the_start_withdraws_its_messages() {
    let starting = Starting::new().await;
    let sent = starting.gateway().send(message("and a song", MessagePriority::Queued));
    starting.gateway().acknowledged(sent, "received").await;
    starting.gateway().send_until_done(Command::Interrupt {}).await;
    starting.gateway().acknowledged(sent, "interrupted").await;
    assert!(!starting.gateway().has_seen("begin_ack done"), "Claude Code has not answered");
    starting.open_gate();
    starting.gateway().acknowledged(starting.begin, "done").await;
    starting.gateway().time_passes().await;
    assert!(starting.heard().is_empty(), "{:?}", starting.heard());
    starting.gateway().send(message("go on", MessagePriority::Queued));
    starting.gateway().sees("turn_completed").await;
    assert_eq!(starting.heard(), ["write a poem\n\ngo on"], "the agent learns its task");
}

#[tokio::test]
async fn interrupt_before_the_agent_takes_its_task_keeps_the_task() {
    let starting = Starting::playing(KEEPS_TWO, &[]).await;
    starting.open_gate();
    starting.reads(1).await;
    starting.gateway().send_until_done(Command::Interrupt {}).await;
    // The task precedes the next message, which is interrupted as well.
    let sent = starting.gateway().send(message("go on", MessagePriority::Queued));
    starting.processes(2).await;
    starting.open_gate();
    starting.reads(2).await;
    starting.gateway().send_until_done(Command::Interrupt {}).await;
    starting.gateway().acknowledged(sent, "interrupted").await;
    starting.gateway().send(message("continue", MessagePriority::Queued));
    starting.processes(3).await;
    starting.open_gate();
    starting.gateway().sees("turn_completed").await;
    let heard = ["write a poem", "write a poem\n\ngo on", "write a poem\n\ncontinue"];
    assert_eq!(starting.heard(), heard);
}

#[tokio::test]
async fn process_that_dies_by_an_interrupt_does_not_drop_the_task() {
    let starting = Starting::playing(DIES_BY_CANCEL, &[]).await;
    starting.open_gate();
    starting.reads(1).await;
    starting.gateway().send_until_done(Command::Interrupt {}).await;
    starting.gateway().send(message("go on", MessagePriority::Queued));
    starting.processes(2).await;
    starting.open_gate();
    starting.gateway().sees("turn_completed").await;
    assert_eq!(starting.heard(), ["write a poem", "write a poem\n\ngo on"]);
}

#[tokio::test]
async fn task_that_waits_during_a_pause_keeps_its_images() {
    let starting = Starting::playing("", &[PNG]).await;
    starting.gateway().send_until_done(Command::Pause {}).await;
    starting.open_gate();
    starting.gateway().acknowledged(starting.begin, "done").await;
    starting.gateway().send_until_done(Command::Resume {}).await;
    starting.gateway().sees("turn_completed").await;
    assert_eq!(starting.heard(), [format!("{} write a poem", base64(PNG))]);
}

#[tokio::test]
async fn withdrawn_task_keeps_its_images() {
    let starting = Starting::playing("", &[PNG]).await;
    starting.gateway().send_until_done(Command::Interrupt {}).await;
    starting.open_gate();
    starting.gateway().acknowledged(starting.begin, "done").await;
    let shown = starting.gateway().image(GIF);
    starting.gateway().send(message_with("go on", vec![shown], MessagePriority::Queued));
    starting.gateway().sees("turn_completed").await;
    assert_eq!(starting.heard(), [format!("{} {} write a poem\n\ngo on", base64(PNG), base64(GIF))]);
}

#[tokio::test]
async fn message_that_is_written_again_has_its_images_again() {
    let starting = Starting::playing(DIES, &[PNG]).await;
    starting.open_gate();
    starting.processes(2).await;
    starting.open_gate();
    starting.gateway().sees("turn_completed").await;
    let task = format!("{} write a poem", base64(PNG));
    assert_eq!(starting.heard(), [task.clone(), task]);
}

#[tokio::test]
async fn reload_is_confirmed_when_its_process_has_answered() {
    let starting = Starting::new().await;
    starting.open_gate();
    starting.gateway().sees("turn_completed").await;
    let mut config = crate::sidecar::config(json!({}));
    config.working_directory = starting.work().to_str().unwrap().into();
    config.composed_system_prompt = "Be brief.".into();
    config.custom_tools = serde_json::from_value(json!([{
        "name": "lint", "description": "Lints", "inputSchema": "{}", "serverUri": "stdio:///usr/bin/lint",
    }]))
    .unwrap();
    config.sub_agents = serde_json::from_value(json!([{
        "name": "tester", "description": "Tests", "modelId": "small", "instructions": "Test.",
    }]))
    .unwrap();
    let reload = starting.gateway().send(Command::ReloadConfig { config: Box::new(config) });
    starting.processes(2).await;
    let arguments = std::fs::read_to_string(starting.work().join("arguments")).unwrap();
    let (before, after) = arguments.split_once('\n').unwrap();
    for part in ["Be brief.", "mcp__lint__lint", "/usr/bin/lint", "tester"] {
        assert!(!before.contains(part) && after.contains(part), "{part}: {arguments}");
    }
    starting.gateway().send_until_done(Command::Pause {}).await;
    assert!(!starting.gateway().has_seen("reload_config_ack done"), "Claude Code has not answered");
    starting.open_gate();
    starting.gateway().acknowledged(reload, "done").await;
    let sent = starting.gateway().send(message("again", MessagePriority::Queued));
    starting.gateway().acknowledged(sent, "received").await;
    starting.gateway().send_until_done(Command::Resume {}).await;
    starting.gateway().sees_nth("turn_completed", 2).await;
    assert_eq!(starting.heard(), ["write a poem", "again"]);
}

#[tokio::test]
async fn refused_reload_leaves_the_thinking_level() {
    let starting = Starting::playing(NOTES_THINKING, &[]).await;
    starting.open_gate();
    starting.gateway().sees("turn_completed").await;
    let broken = starting.work().join("broken");
    std::fs::write(&broken, "").unwrap();
    let mut config = crate::sidecar::config(json!({}));
    config.working_directory = starting.work().to_str().unwrap().into();
    config.thinking_level = Some(ThinkingLevel::High);
    let reload = starting.gateway().send(Command::ReloadConfig { config: Box::new(config) });
    starting.processes(2).await;
    starting.open_gate();
    starting.gateway().acknowledged(reload, "invalid").await;
    std::fs::remove_file(&broken).unwrap();
    starting.gateway().send(message("again", MessagePriority::Queued));
    starting.processes(3).await;
    starting.open_gate();
    starting.gateway().sees_nth("turn_completed", 2).await;
    assert!(!starting.work().join("thinking").exists(), "the level belongs to the refused configuration");
}
