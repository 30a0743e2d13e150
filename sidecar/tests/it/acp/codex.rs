//! codex, if it is installed. Only its model is scripted, through the Responses API.

use std::fs;
use std::path::{Path, PathBuf};

use pilothouse_domain::value::MessagePriority;
use pilothouse_model_server::{ModelServer, Script, Step};
use pilothouse_wire::Command;
use serde_json::{Value, json};

use super::{Harness, workspace};
use crate::sidecar::message;

/// The programs in `PILOTHOUSE_ACP_CODEX`, separated like a `PATH`. There are two versions of codex-acp.
fn programs() -> Vec<PathBuf> {
    let named = std::env::var_os("PILOTHOUSE_ACP_CODEX");
    if named.is_none() {
        println!("not tested: PILOTHOUSE_ACP_CODEX names no codex-acp");
    }
    named.iter().flat_map(std::env::split_paths).collect()
}

/// The agent gets its own home and the scripted model.
fn options(program: &Path, model: &ModelServer, harness: &Harness) -> Value {
    let home = harness.folders.root().join("agent-home");
    fs::create_dir_all(&home).unwrap();
    let config = format!(
        "model = \"scripted\"\nmodel_provider = \"scripted\"\napproval_policy = \"never\"\n\
         sandbox_mode = \"danger-full-access\"\n[model_providers.scripted]\nname = \"scripted\"\nbase_url = \"{}\"\n\
         wire_api = \"responses\"\nenv_key = \"OPENAI_API_KEY\"\n",
        model.openai_base_url().trim_end_matches('/')
    );
    fs::write(home.join("config.toml"), config).unwrap();
    json!({ "agent": "codex", "command": program, "args": [], "env": {
        "HOME": home, "CODEX_HOME": home, "OPENAI_API_KEY": "sk-scripted-model" } })
}

fn run(command: &str) -> Step {
    Step::tool("exec_command", json!({ "cmd": command, "yield_time_ms": 20_000 }))
}

/// Whether there is a process with this text in its command line.
fn runs(text: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|process| fs::read(process.path().join("cmdline")).ok())
        .any(|line| String::from_utf8_lossy(&line).contains(text))
}

#[tokio::test]
async fn codex_interrupt_ends_its_command_and_keeps_its_output() {
    for program in programs() {
        let late = format!("late-{}.txt", uuid::Uuid::new_v4());
        let command = format!("sleep 7; touch {late}");
        let steps = [run("echo one; echo two >&2; exit 3"), run(&command), Step::text("I go on.")];
        let mut script = Script::of(steps);
        script.otherwise = Some(Step::text("A title"));
        let model = ModelServer::start(script).await.unwrap();
        let harness = Harness::empty().await;
        harness.begin(options(&program, &model, &harness), false, Some("work"), |begin| {
            begin.config.allowed_tools = vec!["exec_command".into(), "execute".into()];
        });
        let result = harness.event("tool_result").await;
        let printed = result["content"].as_str().unwrap();
        assert!(printed.contains("one") && printed.contains("two"), "{result}");
        assert!(!printed.contains("aggregated_output"), "{result}");
        harness.gateway.sees_nth("assistant_message tool", 2).await;
        let interrupt = harness.gateway.send(Command::Interrupt {});
        harness.gateway.acknowledged(interrupt, "done").await;
        assert!(!runs(&late), "its command runs on");
        assert!(!workspace(&harness.folders).join(&late).exists());
        let killed = harness.reported_lines().iter().any(|line| line.starts_with("notice agent_killed"));
        assert!(!killed, "codex itself lives");
        harness.gateway.send(message("go on", MessagePriority::Queued));
        harness.gateway.sees("turn_completed").await;
        println!("tested: {}", program.display());
    }
}
