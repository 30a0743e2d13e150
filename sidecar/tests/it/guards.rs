//! Whatever a sidecar's processes start ends with them and with the sidecar, also what left their process group, their session
//! and their parent (ruling 15).

use std::path::Path;

use nix::sys::signal::Signal;
use pilothouse_domain::value::MessagePriority;
use pilothouse_model_server::{ModelServer, Script, Step};
use pilothouse_wire::Command;
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::sidecar::{Folders, Sidecar, begin, config, message, playing, turn};

/// Starts what escapes: deaf to being asked, in a session of its own, without a parent. Its id is in `escaped`.
pub(crate) const ESCAPE: &str = "(setsid sh -c 'trap \"\" TERM HUP INT; echo $$ >escaped.new; mv escaped.new escaped; \
    while :; do sleep 600; done' </dev/null >/dev/null 2>&1 &) ; while [ ! -e escaped ]; do sleep 0.01; done";

/// What escaped in a folder, once it has.
pub(crate) async fn escaped(gateway: &Gateway, folder: &Path) -> i32 {
    let file = folder.join("escaped");
    let id = |_: &Gateway| std::fs::read_to_string(&file).ok()?.trim().parse().ok();
    let pid = gateway.until("a process that has escaped", id).await;
    assert!(runs(pid), "it runs for minutes");
    pid
}

pub(crate) fn runs(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z ") && !stat.contains(") X "))
}

pub(crate) async fn gone(gateway: &Gateway, pid: i32) {
    gateway.until("the end of what has escaped", |_| (!runs(pid)).then_some(())).await;
}

/// How a process comes to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Interrupt,
    Stop,
    Killed,
}

impl End {
    /// Brings it about. What was told to end has ended when that is done; what was killed ends by itself.
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

/// An MCP server and an extension, as small as they can be, that start what escapes: they stand for those that people run.
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
async fn what_the_native_agents_bash_lets_escape_ends() {
    for end in [End::Interrupt, End::Stop, End::Killed] {
        let steps = vec![bash(&format!("{ESCAPE}; sleep 600"))];
        let (gateway, folders, sidecar, _model) = native(steps, json!({}), "go").await;
        let pid = escaped(&gateway, &folders.work()).await;
        end.of(&gateway, &sidecar, pid).await;
    }
}

/// A call is over when nothing of it is left, with the limit that the model has set, too.
#[tokio::test]
async fn what_bash_let_escape_is_gone_when_its_result_is_told() {
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
async fn what_the_owners_command_lets_escape_ends() {
    for end in [End::Interrupt, End::Stop, End::Killed] {
        let (gateway, folders, sidecar, _model) = native(vec![Step::text("Hello.")], json!({}), "go").await;
        gateway.sees("turn_completed").await;
        gateway.send(message(&format!("!{ESCAPE}; sleep 600"), MessagePriority::Immediate));
        let pid = escaped(&gateway, &folders.work()).await;
        end.of(&gateway, &sidecar, pid).await;
    }
}

#[tokio::test]
async fn what_a_server_or_an_extension_of_the_native_agent_lets_escape_ends() {
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
async fn what_a_validation_lets_escape_ends() {
    let validation = |command: String, timeout_seconds| Command::RunValidation {
        criteria: serde_json::from_value(json!([{ "type": "CustomCommand", "customCommand": command }]))
            .unwrap(),
        timeout_seconds,
    };
    // It passes, it takes too long, it is interrupted, and its sidecar is killed.
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
        let pid = gateway.until("a process that has escaped", id).await;
        match end {
            Some(end) => end.of(&gateway, &sidecar, pid).await,
            None => {
                gateway.sees("validation_result").await;
                assert!(!runs(pid), "it runs on after its result");
            }
        }
    }
}

/// Answers control requests, starts what escapes when it gets a message, and says nothing to it.
const CLAUDE: &str = r#"#!/usr/bin/env python3
import json, subprocess, sys
for line in sys.stdin:
    line = json.loads(line)
    if line["type"] == "control_request":
        response = {"subtype": "success", "request_id": line["request_id"], "response": {}}
        print(json.dumps({"type": "control_response", "response": response}), flush=True)
    if line["type"] == "user":
        subprocess.run(["sh", "-c", ESCAPE])
"#;

/// The binary is faked. That of the real one's tools nothing is left either is tested with it.
#[tokio::test]
async fn what_claude_code_lets_escape_ends() {
    for end in [End::Stop, End::Killed] {
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
            allowance_usd: None,
        })));
        let pid = escaped(&gateway, &folders.work()).await;
        end.of(&gateway, &sidecar, pid).await;
    }
}

/// The agent is faked, as in the other tests of the adapter: by this test program.
#[tokio::test]
async fn what_an_acp_agent_or_its_terminal_lets_escape_ends() {
    for (direction, end) in [
        ("escape itself", End::Stop),
        ("escape itself", End::Killed),
        ("escape terminal", End::Interrupt),
        ("escape terminal", End::Stop),
        ("escape terminal", End::Killed),
    ] {
        let stage = crate::acp::Stage::playing("", direction).await;
        let pid = escaped(&stage.gateway, &crate::acp::workspace(&stage.folders)).await;
        end.of(&stage.gateway, &stage.sidecar, pid).await;
    }
}
