//! All descendants of a sidecar's processes end with the process and with the sidecar, even outside their process
//! group, session and parent (decision 15).

use std::path::Path;

use nix::sys::signal::Signal;
use pilothouse_domain::value::MessagePriority;
use pilothouse_model_server::{ModelServer, Script, Step};
use pilothouse_wire::Command;
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::sidecar::{Folders, Sidecar, begin, config, message, playing, turn};

/// Starts a process that ignores SIGTERM, in a new session and without its parent. Its id is in the file `escaped`.
pub(crate) const ESCAPE: &str = "(setsid sh -c 'trap \"\" TERM HUP INT; echo $$ >escaped.new; mv escaped.new escaped; \
    while :; do sleep 600; done' </dev/null >/dev/null 2>&1 &) ; while [ ! -e escaped ]; do sleep 0.01; done";

/// Waits for an escaped process that writes its id to this folder.
pub(crate) async fn escaped(gateway: &Gateway, folder: &Path) -> i32 {
    let file = folder.join("escaped");
    let id = |_: &Gateway| std::fs::read_to_string(&file).ok()?.trim().parse().ok();
    let pid = gateway.until("an escaped process", id).await;
    assert!(runs(pid), "it runs for minutes");
    pid
}

pub(crate) fn runs(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z ") && !stat.contains(") X "))
}

pub(crate) async fn gone(gateway: &Gateway, pid: i32) {
    gateway.until("the end of the escaped process", |_| (!runs(pid)).then_some(())).await;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Interrupt,
    Stop,
    Killed,
}

impl End {
    /// Waits for a requested end; a killed process ends later.
    async fn of(self, gateway: &Gateway, sidecar: &Sidecar, pid: i32) {
        let command = match self {
            Self::Interrupt => Command::Interrupt {},
            Self::Stop => Command::Stop {},
            Self::Killed => {
                sidecar.signal(Signal::SIGKILL);
                return gone(gateway, pid).await;
            }
        };
        let id = gateway.send(command);
        gateway.acknowledged(id, "done").await;
        assert!(!runs(pid), "{self:?} is done, and {pid} runs");
    }
}

/// A sidecar with the native agent, whose model calls `bash` with a command.
async fn native(steps: Vec<Step>, options: Value, prompt: &str) -> (Gateway, Folders, Sidecar, ModelServer) {
    let model = ModelServer::start(Script::of(steps)).await.unwrap();
    let gateway = Gateway::start().await;
    let folders = Folders::of_adapter(&gateway, "native");
    std::fs::write(folders.work().join("server.py"), SERVER).unwrap();
    let environment =
        [("ANTHROPIC_BASE_URL", model.base_url()), ("ANTHROPIC_API_KEY", "sk-ant-x".to_owned())];
    let sidecar = folders.start_with(&environment);
    let Command::Begin(mut begun) = begin(options) else { unreachable!() };
    begun.config.model_id = "anthropic/claude-sonnet-4-5".into();
    begun.config.working_directory = folders.work().to_str().unwrap().into();
    begun.prompt = Some(prompt.into());
    gateway.send(Command::Begin(begun));
    (gateway, folders, sidecar, model)
}

fn bash(command: &str) -> Step {
    Step::tool("bash", json!({ "command": command }))
}

/// A minimal MCP server and extension that start an escaping process.
const SERVER: &str = r#"
import json, os, subprocess, sys
TOOL = {"name": "idle", "inputSchema": {"type": "object"}}
subprocess.run(["sh", "-c", os.environ["ESCAPE"]])
for line in sys.stdin:
    message = json.loads(line)
    if message.get("type") == "hello":
        print(json.dumps({"type": "hello", "protocol": 1, "subscribe": []}), flush=True)
    if message.get("method") == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
    if message.get("method") == "tools/list":
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"tools": [TOOL]}}), flush=True)
"#;

#[tokio::test]
async fn escaped_processes_of_native_bash_end() {
    for end in [End::Interrupt, End::Stop, End::Killed] {
        let steps = vec![bash(&format!("{ESCAPE}; sleep 600"))];
        let (gateway, folders, sidecar, _model) = native(steps, json!({}), "go").await;
        let pid = escaped(&gateway, &folders.work()).await;
        end.of(&gateway, &sidecar, pid).await;
    }
}

/// A call ends only when no process of it is left, even with a limit of the model.
#[tokio::test]
async fn escaped_processes_of_bash_end_before_its_result() {
    let limited = json!({ "command": format!("{ESCAPE}; sleep 600"), "timeout": 2 });
    for call in [bash(ESCAPE), Step::tool("bash", limited)] {
        let steps = vec![call, Step::text("Done.")];
        let (gateway, folders, _sidecar, _model) = native(steps, json!({}), "go").await;
        gateway.sees("tool_result").await;
        let pid = std::fs::read_to_string(folders.work().join("escaped")).unwrap().trim().parse().unwrap();
        assert!(!runs(pid), "it runs on after its call");
    }
}

#[tokio::test]
async fn escaped_processes_of_an_owner_command_end() {
    for end in [End::Interrupt, End::Stop, End::Killed] {
        let (gateway, folders, sidecar, _model) = native(vec![Step::text("Hello.")], json!({}), "go").await;
        gateway.sees("turn_completed").await;
        gateway.send(message(&format!("!{ESCAPE}; sleep 600"), MessagePriority::Immediate));
        let pid = escaped(&gateway, &folders.work()).await;
        end.of(&gateway, &sidecar, pid).await;
    }
}

#[tokio::test]
async fn escaped_processes_of_servers_and_extensions_end() {
    let program = json!({ "command": "python3", "args": ["server.py"], "env": { "ESCAPE": ESCAPE } });
    let mut extension = program.clone();
    extension["name"] = "mine".into();
    for options in [json!({ "mcpServers": { "mine": program } }), json!({ "extensions": [extension] })] {
        for end in [End::Stop, End::Killed] {
            let (gateway, folders, sidecar, _model) =
                native(vec![Step::text("Hello.")], options.clone(), "go").await;
            gateway.sees("turn_completed").await;
            let pid = escaped(&gateway, &folders.work()).await;
            end.of(&gateway, &sidecar, pid).await;
        }
    }
}

#[tokio::test]
async fn escaped_processes_of_a_validation_end() {
    let validation = |command: String, timeout_seconds| Command::RunValidation {
        criteria: serde_json::from_value(json!([{ "type": "CustomCommand", "customCommand": command }]))
            .unwrap(),
        timeout_seconds,
    };
    // The validation passes, times out, is interrupted, and loses its sidecar.
    for (rest, limit, end) in [
        ("true", 600, None),
        ("sleep 600", 2, None),
        ("sleep 600", 600, Some(End::Interrupt)),
        ("sleep 600", 600, Some(End::Killed)),
    ] {
        let (gateway, folders, sidecar) = playing(json!([turn(json!([{ "say": "Done." }]))])).await;
        gateway.sees("turn_completed").await;
        gateway.send(validation(format!("{ESCAPE}; {rest}"), limit));
        let file = folders.root().join("escaped");
        let id = |_: &Gateway| std::fs::read_to_string(&file).ok()?.trim().parse().ok();
        let pid = gateway.until("an escaped process", id).await;
        if let Some(end) = end {
            end.of(&gateway, &sidecar, pid).await;
        } else {
            gateway.sees("validation_result").await;
            assert!(!runs(pid), "it runs on after its result");
        }
    }
}

/// Answers control requests, starts an escaping process on a message, and does not reply.
const CLAUDE: &str = r#"#!/usr/bin/env python3
import json, subprocess, sys
for line in sys.stdin:
    line = json.loads(line)
    if line["type"] == "control_request":
        response = {"subtype": "success", "request_id": line["request_id"], "response": {}}
        print(json.dumps({"type": "control_response", "response": response}), flush=True)
        if line["request"]["subtype"] == "interrupt":
            print(json.dumps({"type": "result", "subtype": "error_during_execution", "is_error": True, "session_id": "s"}), flush=True)
    if line["type"] == "user":
        print(json.dumps({"type": "system", "subtype": "init", "session_id": "s", "model": "m", "tools": [], "uuid": "i"}), flush=True)
        print(json.dumps({**line, "isReplay": True, "session_id": "s"}), flush=True)
        asked = {"subtype": "hook_callback", "callback_id": "PreToolUse", "tool_use_id": "t", "input": {"tool_name": "Bash"}}
        print(json.dumps({"type": "control_request", "request_id": "hook", "request": asked}), flush=True)
    if line["type"] == "control_response" and line["response"]["request_id"] == "hook":
        subprocess.run(["sh", "-c", ESCAPE])
"#;

/// The binary is a fake that reports the end of its turn on an interrupt and leaves its command running. Other tests
/// cover the tools of the real one.
#[tokio::test]
async fn escaped_processes_of_claude_code_end() {
    for end in [End::Interrupt, End::Stop, End::Killed] {
        let gateway = Gateway::start().await;
        let folders = Folders::of_adapter(&gateway, "claude");
        let binary = folders.root().join("claude");
        std::fs::write(&binary, CLAUDE.replace("ESCAPE", &json!(ESCAPE).to_string())).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&binary, mode).unwrap();
        let sidecar = folders.start_with(&[("PILOTHOUSE_CLAUDE", binary.to_str().unwrap().to_owned())]);
        let mut config = config(json!({}));
        config.working_directory = folders.work().to_str().unwrap().into();
        gateway.send(Command::Begin(Box::new(pilothouse_wire::command::Begin {
            config,
            resume_conversation: false,
            prompt: Some("go".into()),
            images: Vec::new(),
            allowance_usd: None,
            allow_unmetered: false,
        })));
        let pid = escaped(&gateway, &folders.work()).await;
        end.of(&gateway, &sidecar, pid).await;
    }
}

/// The agent is the same fake as in the adapter's other tests: this test program.
#[tokio::test]
async fn escaped_processes_of_acp_agents_and_terminals_end() {
    for (direction, end) in [
        // It answers `cancelled` and leaves its command running.
        ("escape itself", End::Interrupt),
        ("escape waiting", End::Interrupt),
        ("escape itself", End::Stop),
        ("escape itself", End::Killed),
        ("escape terminal", End::Interrupt),
        ("escape terminal", End::Stop),
        ("escape terminal", End::Killed),
    ] {
        let harness = crate::acp::Harness::playing("", direction).await;
        let pid = escaped(&harness.gateway, &crate::acp::workspace(&harness.folders)).await;
        end.of(&harness.gateway, &harness.sidecar, pid).await;
        let killed = harness.reported_lines().iter().any(|line| line.starts_with("notice agent_killed"));
        assert!(!killed, "the agent lives, and its next turn needs no new process");
    }
}

/// A pause takes effect only when no process of a call can run. Processes outside the agent's group are stopped, too.
#[tokio::test]
async fn acp_pause_stops_commands_and_resume_continues_them() {
    for direction in ["escape itself", "escape terminal"] {
        let harness = crate::acp::Harness::playing("", direction).await;
        let pid = escaped(&harness.gateway, &crate::acp::workspace(&harness.folders)).await;
        let pause = harness.gateway.send(Command::Pause {});
        harness.gateway.acknowledged(pause, "done").await;
        assert_eq!(state(pid), Some('T'), "{direction}");
        let resume = harness.gateway.send(Command::Resume {});
        harness.gateway.acknowledged(resume, "done").await;
        let continues = |_: &Gateway| state(pid).filter(|state| *state != 'T');
        harness.gateway.until("the command continues", continues).await;
        // A paused process ends without being continued.
        let pause = harness.gateway.send(Command::Pause {});
        harness.gateway.acknowledged(pause, "done").await;
        End::Interrupt.of(&harness.gateway, &harness.sidecar, pid).await;
    }
}

fn state(pid: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}
