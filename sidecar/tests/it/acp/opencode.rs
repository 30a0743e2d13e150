//! opencode, if it is installed. Only its model is scripted, through an OpenAI-compatible API.

use std::path::{Path, PathBuf};

use pilothouse_domain::value::{Answer, MessagePriority};
use pilothouse_model_server::{ModelServer, Script, Step};
use pilothouse_wire::Command;
use serde_json::{Value, json};

use super::{Harness, workspace};
use crate::sidecar::message;

/// The program, if `tests/agents` has installed it.
fn program() -> Option<PathBuf> {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/agents/opencode/opencode");
    if !installed.exists() {
        println!("not tested: opencode is not installed; `tests/agents` installs it");
        return None;
    }
    Some(installed)
}

/// The agent gets its own home and the scripted model. A proxy that does not exist blocks its requests for plug-ins and
/// updates.
fn options(program: &Path, model: &ModelServer, harness: &Harness) -> Value {
    let home = harness.folders.root().join("agent-home");
    std::fs::create_dir_all(&home).unwrap();
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible", "name": "Scripted",
        "options": { "baseURL": model.openai_base_url(), "apiKey": "sk-scripted-model" },
        "models": { "small": { "name": "Small", "tool_call": true, "limit": { "context": 100_000, "output": 8000 } } },
    });
    let config = json!({ "provider": { "scripted": provider }, "model": "scripted/small", "small_model": "scripted/small",
        "autoupdate": false, "share": "disabled" });
    json!({ "agent": "opencode", "command": program, "args": ["acp"], "env": {
        "HOME": home, "OPENCODE_CONFIG_CONTENT": config.to_string(), "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1", "OPENCODE_PURE": "1",
        "HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1" } })
}

/// Selects the model's answers by the request, because opencode also asks for a title.
fn script() -> Script {
    let bash =
        |command: &str| Step::tool("bash", json!({ "command": command, "description": "Run a command" }));
    let to = |when: &str, step: Step| Step { when: Some(when.into()), repeat: true, ..step };
    let mut script = Script::of([
        to("heliotrope", bash("touch asked-for; echo fin''ished")),
        to("finished", Step::text("It ran.")),
        to("something long", bash("sleep 600")),
        to("which word", Step::text("I remember.")),
    ]);
    script.otherwise = Some(Step::text("A title"));
    script
}

/// Waits until it has started, which is slow on a busy machine.
async fn connected(harness: &Harness) -> Value {
    let limit = 2 * crate::gateway::DEADLINE;
    let connected_event = |gateway: &crate::gateway::Gateway| {
        gateway.delivered().into_iter().find(|e| e.body["name"] == "agent_connected").map(|e| e.body)
    };
    harness.gateway.until_within(limit, "a start", connected_event).await
}

#[tokio::test]
async fn opencode_asks_runs_a_tool_and_resumes_in_a_new_process() {
    let Some(program) = program() else { return };
    let model = ModelServer::start(script()).await.unwrap();
    let harness = Harness::empty().await;
    let agent = options(&program, &model, &harness);
    harness.begin(agent.clone(), false, None, |_| {});
    connected(&harness).await;
    harness.gateway.send(message("the word of the day is heliotrope", MessagePriority::Queued));
    // Its default is to run commands without asking. The options change that.
    let asked = harness.event("question_asked").await;
    assert!(!workspace(&harness.folders).join("asked-for").exists());
    let question = asked["questions"][0]["question"].as_str().unwrap().to_owned();
    let answers = vec![Answer { question, answer: "Allow once".into() }];
    let request_id = asked["requestId"].as_str().unwrap().parse().unwrap();
    let id = harness.gateway.send(Command::Answer { request_id, answers, modified_input: None });
    harness.gateway.acknowledged(id, "done").await;
    harness.gateway.sees("turn_completed").await;
    assert!(workspace(&harness.folders).join("asked-for").exists());
    assert!(
        harness.reported_lines().iter().any(|s| s == "assistant_message text It ran."),
        "{:#?}",
        harness.reported_lines()
    );
    let can = harness.abilities();
    for (ability, has) in
        [("hotReload", true), ("cost", true), ("steerMidTurn", false), ("compaction", false)]
    {
        assert_eq!(can[ability], has, "{ability}");
    }

    harness.gateway.send(message("something long", MessagePriority::Queued));
    harness.gateway.sees_nth("question_asked", 2).await;
    let interrupt = harness.gateway.send(Command::Interrupt {});
    harness.gateway.acknowledged(interrupt, "done").await;
    assert_eq!(harness.reported_lines().iter().filter(|s| s.starts_with("turn_completed")).count(), 1);

    let harness = harness.next_run().await;
    harness.begin(agent, true, None, |_| {});
    assert_eq!(connected(&harness).await["detail"]["conversationTakenUp"], true);
    harness.gateway.send(message("which word?", MessagePriority::Queued));
    harness.gateway.sees("turn_completed").await;
    let story = harness.reported_lines();
    assert!(story.iter().any(|s| s == "assistant_message text I remember."), "{story:#?}");
    assert!(
        !story.iter().any(|s| s.contains("It ran.")),
        "earlier updates are not published again: {story:#?}"
    );
    let last = model.prompts().last().unwrap().text();
    assert!(last.contains("heliotrope"), "the model hears of the earlier run");
}
