//! The shims for the OpenAI Agents SDK and the Agent Development Kit, if `sidecar/shims/install` has installed them, which
//! `.ci/run` does. Only their model is scripted.

use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use pilothouse_domain::value::{DraftKind, MessagePriority};
use pilothouse_model_server::{ModelServer, Script, Step};
use pilothouse_wire::Command;
use pilothouse_wire::command::Begin;
use serde_json::{Value, json};

use super::Harness;
use crate::gateway::{Delivered, Gateway};
use crate::sidecar::{Folders, Sidecar, config, message};

/// The module of the shim, and its model.
const SDKS: [(&str, &str); 2] =
    [("pilothouse_shim.openai_agents", "gpt-5"), ("pilothouse_shim.adk", "gemini-2.5-flash")];

fn python() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_BIN_EXE_pilothouse-sidecar")).ancestors().nth(2).unwrap();
    let folder = target.join("shims");
    let installed = folder.join("versions").exists().then(|| folder.join("bin/python"));
    if installed.is_none() {
        assert_ne!(std::env::var("NEXTEST_PROFILE").as_deref(), Ok("ci"), "no SDKs in {}", folder.display());
        println!("not tested: the SDKs are not installed; `sidecar/shims/install` installs them");
    }
    installed
}

fn begin(
    python: &Path,
    (module, model): (&str, &str),
    server: &ModelServer,
    text: &str,
    resume: bool,
) -> Begin {
    let options = json!({ "command": python, "args": ["-m", module], "env": {
        "OPENAI_BASE_URL": server.openai_base_url(), "OPENAI_API_KEY": "sk-scripted-model",
        "GOOGLE_GEMINI_BASE_URL": server.base_url(), "GOOGLE_API_KEY": "sk-scripted-model" } });
    let mut config = config(options);
    config.model_id = model.into();
    Begin {
        config,
        resume_conversation: resume,
        prompt: Some(text.into()),
        images: Vec::new(),
        allowance_usd: None,
        allow_unmetered: false,
    }
}

fn shell(when: &str, command: &str) -> Step {
    Step { when: Some(when.into()), ..Step::tool("shell", json!({ "command": command })) }
}

fn says(when: &str, text: &str) -> Step {
    Step { when: Some(when.into()), ..Step::text(text) }
}

/// No table has the prices of Gemini models.
const PRICES: &str = r#"{ "providers": [{ "name": "google", "api": "openai-chat", "baseUrl": "http://127.0.0.1:9/v1/", "apiKeyEnv": "NO_SUCH_KEY",
    "models": [{ "id": "gemini-2.5-flash", "contextWindow": 1000000, "maxOutputTokens": 8000, "thinking": false,
      "price": { "input": "0.30", "output": "2.50", "cacheRead": "0.03", "cacheWrite": "0.30" } }] }] }"#;

async fn priced() -> Harness {
    let gateway = Gateway::start().await;
    let folders = Folders::of_adapter(&gateway, "shim");
    let sidecar = start(&folders);
    Harness { gateway, folders, sidecar }
}

fn start(folders: &Folders) -> Sidecar {
    let file = folders.root().join("models.json");
    std::fs::write(&file, PRICES).unwrap();
    folders.start_with(&[("PILOTHOUSE_MODELS", file.to_str().unwrap().to_owned())])
}

async fn asked(harness: &Harness, n: usize) -> Delivered {
    let at = harness.gateway.sees_nth("question_asked", n).await;
    harness.gateway.delivered().swap_remove(at)
}

#[tokio::test]
async fn owner_changes_a_call_and_the_conversation_goes_on() {
    let Some(python) = python() else { return };
    for sdk in SDKS {
        let script = Script::of([
            shell("the first task", "echo harm''ful"),
            says("harmless", "It was harmless."),
            says("the second task", "Both are done."),
        ]);
        let server = ModelServer::start(script).await.unwrap();
        let harness = priced().await;
        harness.begin(begin(&python, sdk, &server, "the first task", false));
        let asked = asked(&harness, 1).await;
        let command = asked.body["approval"]["input"]["command"].clone();
        assert_eq!(command, "echo harm''ful", "{sdk:?}");
        let answer = harness.gateway.decide(&asked, "Allow", Some(json!({ "command": "echo harm''less" })));
        harness.gateway.acknowledged(answer, "done").await;
        harness.gateway.sees("assistant_message text It was harmless.").await;
        let result = harness.event("tool_result").await;
        assert!(result["content"].as_str().unwrap().starts_with("harmless\n"), "{sdk:?} {result}");
        harness.gateway.sees("turn_completed").await;
        harness.gateway.send(message("the second task", MessagePriority::Queued));
        harness.gateway.sees("assistant_message text Both are done.").await;
        harness.gateway.sees_nth("turn_completed", 2).await;
        let story = harness.gateway.story();
        assert_eq!(story.iter().filter(|event| event.starts_with("tool_result")).count(), 1, "{story:#?}");
        assert!(!story.iter().any(|event| event.starts_with("notice event_")), "{story:#?}");
        let usage = harness.event("usage_update").await;
        assert!(usage["costUsd"].as_str().unwrap().parse::<f64>().unwrap() > 0.0, "{sdk:?} {usage}");
        let all: String = harness.gateway.delivered().iter().map(|event| event.body.to_string()).collect();
        assert!(!all.contains("sk-scripted-model"));
    }
}

#[tokio::test]
async fn text_of_openai_is_shown_while_it_is_written() {
    let Some(python) = python() else { return };
    // The model pauses after 16 characters.
    let text = "The tea is here. The cups are there.";
    let server = ModelServer::start(Script::of([Step::text(text).waiting_inside("rest")])).await.unwrap();
    let harness = priced().await;
    harness.gateway.follow();
    harness.begin(begin(&python, SDKS[0], &server, "find the tea", false));
    harness.gateway.shows_draft(DraftKind::Text, "The tea is here.").await;
    server.open("rest");
    harness.gateway.sees(&format!("assistant_message text {text}")).await;
    harness.gateway.sees("turn_completed").await;
    let story = harness.gateway.story();
    assert!(!story.iter().any(|event| event.starts_with("notice event_")), "{story:#?}");
}

#[tokio::test]
async fn denied_call_is_not_made() {
    let Some(python) = python() else { return };
    for sdk in SDKS {
        let script = Script::of([shell("the task", "touch made"), says("use git", "Then with git.")]);
        let server = ModelServer::start(script).await.unwrap();
        let harness = priced().await;
        harness.begin(begin(&python, sdk, &server, "the task", false));
        let asked = asked(&harness, 1).await;
        harness.gateway.decide(&asked, "use git", None);
        harness.gateway.sees("assistant_message text Then with git.").await;
        harness.gateway.sees("turn_completed").await;
        assert!(!harness.folders.work().join("made").exists(), "{sdk:?}");
        assert_eq!(harness.event("tool_result").await["isError"], true, "{sdk:?}");
    }
}

#[tokio::test]
async fn tool_that_is_always_allowed_is_not_asked_about_again() {
    let Some(python) = python() else { return };
    for sdk in SDKS {
        let script = Script::of([
            shell("the task", "echo o''ne"),
            shell("one", "echo t''wo"),
            says("two", "Both are done."),
        ]);
        let server = ModelServer::start(script).await.unwrap();
        let harness = priced().await;
        harness.begin(begin(&python, sdk, &server, "the task", false));
        let first = asked(&harness, 1).await;
        harness.gateway.decide(&first, "Always allow", None);
        harness.gateway.sees("assistant_message text Both are done.").await;
        harness.gateway.sees("turn_completed").await;
        let story = harness.gateway.story();
        let questions = story.iter().filter(|event| event.starts_with("question_asked")).count();
        assert_eq!(questions, 1, "{sdk:?}: {story:#?}");
    }
}

#[tokio::test]
async fn message_enters_the_turn_before_the_next_model_call() {
    let Some(python) = python() else { return };
    for sdk in SDKS {
        let script =
            Script::of([shell("the task", "echo d''one"), says("look at the tests", "I look at the tests.")]);
        let server = ModelServer::start(script).await.unwrap();
        let harness = priced().await;
        harness.begin(begin(&python, sdk, &server, "the task", false));
        let asked = asked(&harness, 1).await;
        harness.gateway.send(message("look at the tests", MessagePriority::Immediate));
        harness.gateway.sees("message_ack injected").await;
        harness.gateway.decide(&asked, "Allow", None);
        harness.gateway.sees("assistant_message text I look at the tests.").await;
        harness.gateway.sees("turn_completed").await;
        let story = harness.gateway.story();
        assert_eq!(story.iter().filter(|event| event.starts_with("turn_started")).count(), 1, "{story:#?}");
    }
}

#[tokio::test]
async fn conversation_survives_a_killed_sidecar() {
    let Some(python) = python() else { return };
    for sdk in SDKS {
        let script = Script::of([
            says("the first task", "The first is done."),
            shell("the second task", "sleep 300"),
            says("the third task", "I remember."),
        ]);
        let server = ModelServer::start(script).await.unwrap();
        let harness = priced().await;
        harness.begin(begin(&python, sdk, &server, "the first task", false));
        harness.gateway.sees("turn_completed").await;
        harness.gateway.send(message("the second task", MessagePriority::Queued));
        asked(&harness, 1).await;
        let harness = harness.next_run_by(start).await;
        let mut next = begin(&python, sdk, &server, "the third task", true);
        next.config.composed_system_prompt = "Speak like a pirate.".into();
        harness.begin(next);
        harness.gateway.sees("assistant_message text I remember.").await;
        // The brief of the new run applies (S2 `updateBrief`).
        let request = server.prompts().pop().unwrap().body.to_string();
        for said in ["the first task", "The first is done.", "the third task", "Speak like a pirate."] {
            assert!(request.contains(said), "{sdk:?}: {said} is missing in {request}");
        }
    }
}

#[tokio::test]
async fn interrupt_ends_the_call_of_an_sdk_and_keeps_its_conversation() {
    let Some(python) = python() else { return };
    for sdk in SDKS {
        let script = Script::of([
            says("the first task", "The first is done."),
            shell("the second task", "touch started; sleep 300; touch finished"),
            says("the third task", "I remember."),
        ]);
        let server = ModelServer::start(script).await.unwrap();
        let harness = priced().await;
        harness.begin(begin(&python, sdk, &server, "the first task", false));
        harness.gateway.sees("turn_completed").await;
        harness.gateway.send(message("the second task", MessagePriority::Queued));
        let asked = asked(&harness, 1).await;
        harness.gateway.decide(&asked, "Allow", None);
        let started = harness.folders.work().join("started");
        harness.gateway.until("the call", |_| started.exists().then_some(())).await;
        let interrupt = harness.gateway.send(Command::Interrupt {});
        harness.gateway.acknowledged(interrupt, "done").await;
        let left = shim_processes(harness.folders.root());
        assert!(left.is_empty(), "{sdk:?}: {left:?}");
        harness.gateway.send(message("the third task", MessagePriority::Queued));
        harness.gateway.sees("assistant_message text I remember.").await;
        harness.gateway.sees_nth("turn_completed", 2).await;
        let request = server.prompts().pop().unwrap().body.to_string();
        for said in ["the first task", "The first is done.", "the third task"] {
            assert!(request.contains(said), "{sdk:?}: {said} is missing in {request}");
        }
        let story = harness.gateway.story();
        let lost = |event: &String| event.starts_with("notice conversation_lost");
        assert!(!story.iter().any(lost), "{sdk:?}: {story:#?}");
    }
}

#[tokio::test]
async fn run_state_of_openai_survives_a_pause_and_the_process() {
    let Some(python) = python() else { return };
    let script = Script::of([
        shell("the task", "echo o''ne"),
        shell("one", "echo t''wo"),
        says("two", "Both are done."),
    ]);
    let server = ModelServer::start(script).await.unwrap();
    let harness = priced().await;
    harness.begin(begin(&python, SDKS[0], &server, "the task", false));
    let first = asked(&harness, 1).await;
    harness.gateway.decide(&first, "Allow", None);
    let second = asked(&harness, 2).await;
    let pause = harness.gateway.send(Command::Pause {});
    harness.gateway.acknowledged(pause, "done").await;
    let kept = kept_state(&harness);
    assert!(kept["checkpoint"]["runStateJson"].is_string(), "{kept}");
    assert_eq!(kept["agentId"], harness.gateway.session.to_string());
    assert_eq!(kept["briefSnapshot"]["agentId"], kept["agentId"]);
    assert_eq!((&kept["pluginName"], &kept["checkpoint"]["sdk"]), (&json!("openai"), &json!("openai")));
    assert_eq!(kept["pendingDecisionIds"].as_array().unwrap().len(), 1, "the second call waits: {kept}");
    // The pause may overtake the checkpoint of the decision, which is kept after it then.
    assert!(["pause", "checkpoint"].contains(&kept["serializedBy"].as_str().unwrap()), "{kept}");
    for field in ["lastSequence", "estimatedSizeBytes"] {
        assert!(kept[field].as_u64().unwrap() > 0, "{field}: {kept}");
    }
    for field in ["sessionId", "serializedAt"] {
        assert!(!kept[field].as_str().unwrap().is_empty(), "{field}: {kept}");
    }
    kill_python(harness.folders.root());
    harness.gateway.sees("notice agent_ended").await;
    let answer = harness.gateway.decide(&second, "Allow", None);
    harness.gateway.acknowledged(answer, "done").await;
    harness.gateway.send(Command::Resume {});
    harness.gateway.sees("assistant_message text Both are done.").await;
    harness.gateway.sees("turn_completed").await;
    assert_eq!(server.prompts().len(), 3, "no model call was repeated");
}

/// Allows the only call of the turn, whose command creates the file `started`, and pauses while it runs.
async fn pause_during_the_call(harness: &Harness) {
    let asked = asked(harness, 1).await;
    harness.gateway.decide(&asked, "Allow", None);
    let started = harness.folders.work().join("started");
    harness.gateway.until("the call", |_| started.exists().then_some(())).await;
    let pause = harness.gateway.send(Command::Pause {});
    harness.gateway.acknowledged(pause, "done").await;
}

#[tokio::test]
async fn pause_of_openai_repeats_neither_call_nor_model_call() {
    let Some(python) = python() else { return };
    let call = "touch started; sleep 1; echo x >> log; echo o''ne";
    let server =
        ModelServer::start(Script::of([shell("the task", call), says("one", "Done.")])).await.unwrap();
    let harness = priced().await;
    harness.begin(begin(&python, SDKS[0], &server, "the task", false));
    pause_during_the_call(&harness).await;
    let kept = kept_state(&harness)["checkpoint"]["runStateJson"].as_str().unwrap().to_owned();
    assert!(kept.contains("one\\n"), "the call has ended: {kept}");
    kill_python(harness.folders.root());
    harness.gateway.sees("notice agent_ended").await;
    harness.gateway.send(Command::Resume {});
    harness.gateway.sees("assistant_message text Done.").await;
    harness.gateway.sees("turn_completed").await;
    let made = std::fs::read_to_string(harness.folders.work().join("log")).unwrap();
    assert_eq!((made.as_str(), server.prompts().len()), ("x\n", 2));
}

#[tokio::test]
async fn call_longer_than_a_pause_waits_is_stopped_and_continues() {
    let Some(python) = python() else { return };
    let call = "touch started; sleep 4; echo x >> log; echo o''ne";
    let server =
        ModelServer::start(Script::of([shell("the task", call), says("one", "Done.")])).await.unwrap();
    let harness = priced().await;
    let mut begin = begin(&python, SDKS[0], &server, "the task", false);
    begin.config.adapter_options["requestSeconds"] = 1.into();
    harness.begin(begin);
    pause_during_the_call(&harness).await;
    let failed = harness.event("notice pause_failed").await;
    assert!(failed["summary"].as_str().unwrap().contains("within a model call or a tool"), "{failed}");
    harness.gateway.send(Command::Resume {});
    harness.gateway.sees("assistant_message text Done.").await;
    harness.gateway.sees("turn_completed").await;
    let made = std::fs::read_to_string(harness.folders.work().join("log")).unwrap();
    assert_eq!((made.as_str(), server.prompts().len()), ("x\n", 2));
}

#[tokio::test]
async fn pause_of_adk_stops_its_process_until_the_resume() {
    let Some(python) = python() else { return };
    let script = Script::of([shell("the task", "echo harm''less"), says("harmless", "It was harmless.")]);
    let server = ModelServer::start(script).await.unwrap();
    let harness = priced().await;
    harness.begin(begin(&python, SDKS[1], &server, "the task", false));
    let asked = asked(&harness, 1).await;
    let pause = harness.gateway.send(Command::Pause {});
    harness.gateway.acknowledged(pause, "done").await;
    let processes = shim_processes(harness.folders.root());
    let stopped = |id: &i32| std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap().contains(") T ");
    assert!(!processes.is_empty() && processes.iter().all(stopped), "{processes:?}");
    let answer = harness.gateway.decide(&asked, "Allow", None);
    harness.gateway.acknowledged(answer, "done").await;
    let resume = harness.gateway.send(Command::Resume {});
    harness.gateway.acknowledged(resume, "done").await;
    harness.gateway.sees("assistant_message text It was harmless.").await;
    harness.gateway.sees("turn_completed").await;
    assert_eq!(server.prompts().len(), 2, "no model call was repeated");
}

/// The agents that `build` returns have no approvals of their own.
const TEAM: &str = "
import agents
from pilothouse_shim import tools

def build(brief):
    model, shell = brief['modelPreference'], agents.function_tool(tools.shell)
    helper = agents.Agent(name='helper', model=model, tools=[shell])
    return agents.Agent(name='first', model=model, handoffs=[helper])
";

#[tokio::test]
async fn openai_agent_that_takes_over_asks_too() {
    let Some(python) = python() else { return };
    let server = ModelServer::start(Script::of([
        Step { when: Some("the task".into()), ..Step::tool("transfer_to_helper", json!({})) },
        shell("helper", "touch made"),
        says("not that", "I leave it."),
    ]))
    .await
    .unwrap();
    let harness = priced().await;
    std::fs::write(harness.folders.work().join("team.py"), TEAM).unwrap();
    let mut begin = begin(&python, SDKS[0], &server, "the task", false);
    begin.config.adapter_options["args"] = json!(["-m", SDKS[0].0, "--agent", "team:build"]);
    harness.begin(begin);
    let asked = asked(&harness, 1).await;
    harness.gateway.decide(&asked, "not that", None);
    harness.gateway.sees("assistant_message text I leave it.").await;
    harness.gateway.sees("turn_completed").await;
    assert!(!harness.folders.work().join("made").exists());
}

const WRITER: &str = "
import asyncio
from pathlib import Path
from pilothouse_shim import Agent, main

class Writer(Agent):
    async def run(self, run):
        Path('report.md').write_text('done')
        await asyncio.to_thread(run._shim.backend.renew)
        return await run.artifact(Path('report.md'), artifact_id='report')

main(Writer())
";

#[tokio::test]
async fn python_library_uploads_with_a_renewed_token() {
    let Some(python) = python() else { return };
    let harness = Harness::empty().await;
    std::fs::write(harness.folders.work().join("writer.py"), WRITER).unwrap();
    let mut begin = super::begin(&json!({}), Some("write"), false);
    begin.config.adapter_options = json!({ "command": python, "args": ["writer.py"] });
    harness.begin(begin);
    harness.gateway.sees("turn_completed").await;
    let artifact = harness.event("notice artifact").await["detail"].clone();
    let (_, hash) = artifact["uri"].as_str().unwrap().rsplit_once("sha256=").unwrap();
    let kept = std::fs::read_to_string(harness.folders.root().join("home/artifacts").join(hash)).unwrap();
    assert_eq!((kept.as_str(), &artifact["artifactId"]), ("done", &json!("report")));
}

/// The latest state that the sidecar has kept.
fn kept_state(harness: &Harness) -> Value {
    let folder = harness.folders.root().join("home/shim");
    let conversation: Value =
        serde_json::from_slice(&std::fs::read(folder.join("conversation.json")).unwrap()).unwrap();
    let kept = std::fs::read(folder.join(format!("checkpoint-{}.json", conversation["checkpoint"]))).unwrap();
    serde_json::from_slice(&kept).unwrap()
}

/// The Python processes of the shim that works in this folder.
fn shim_processes(folder: &Path) -> Vec<i32> {
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(id) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let line = std::fs::read_to_string(process.path().join("cmdline")).unwrap_or_default();
        let is_here = std::fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder));
        let program = std::fs::read_link(process.path().join("exe")).unwrap_or_default();
        let is_python = program.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python"));
        if is_here && is_python && line.contains("pilothouse_shim") {
            found.push(id);
        }
    }
    found
}

fn kill_python(folder: &Path) {
    for id in shim_processes(folder) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(id), Signal::SIGKILL).unwrap();
    }
}
