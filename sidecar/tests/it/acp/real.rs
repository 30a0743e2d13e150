//! A real agent, `claude-agent-acp`, if it is installed. Only its model is scripted.

use std::path::{Path, PathBuf};

use pilothouse_domain::value::{Answer, MessagePriority};
use pilothouse_model_server::{ModelServer, Request, Script, Step, fixture};
use pilothouse_wire::Command;
use serde_json::{Value, json};

use super::{Harness, workspace};
use crate::sidecar::message;
use crate::verdicts::Verdict;

/// The program from `PILOTHOUSE_ACP_CLAUDE` or `tests/agents`, if there is one.
fn program() -> Option<PathBuf> {
    let named = std::env::var_os("PILOTHOUSE_ACP_CLAUDE").map(PathBuf::from);
    let installed =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/agents/node_modules/.bin/claude-agent-acp");
    let found = named.into_iter().chain([installed]).find(|path| path.exists());
    if found.is_none() {
        println!("not tested: claude-agent-acp is not installed; `tests/agents` installs it");
    }
    found
}

/// The agent gets its own home and the scripted model.
fn options(program: &Path, model: &ModelServer, harness: &Harness) -> Value {
    let home = harness.folders.root().join("agent-home");
    std::fs::create_dir_all(&home).unwrap();
    json!({ "agent": "claude-code-acp", "command": program, "env": {
        "HOME": home, "ANTHROPIC_BASE_URL": model.base_url(), "ANTHROPIC_API_KEY": "sk-ant-scripted-model",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1" } })
}

/// A script for the conversation only: some versions also ask for a title, without tools.
fn script(steps: impl IntoIterator<Item = Step>) -> Script {
    let mut script = Script::of(steps);
    script.conversations[0].offers = Some("Bash".into());
    script.otherwise = Some(Step::text("A title"));
    script
}

/// The model's requests that belong to the conversation.
fn prompts(model: &ModelServer) -> Vec<Request> {
    model.prompts().into_iter().filter(|request| request.step.is_some()).collect()
}

fn bash(command: &str) -> Step {
    Step::tool("Bash", json!({"command": command, "description": "Run a command"}))
}

#[tokio::test]
async fn the_real_agent_makes_the_tests_pass() {
    let Some(program) = program() else { return };
    let model = ModelServer::start(fixture::make_the_tests_pass().unwrap()).await.unwrap();
    let harness = Harness::empty().await;
    fixture::broken_calculator(&workspace(&harness.folders)).unwrap();
    let options = options(&program, &model, &harness);
    harness.begin(options, false, Some(fixture::TASK), |begin| {
        begin.config.allowed_tools = ["Bash", "Read", "Edit"].map(Into::into).to_vec();
    });
    harness.gateway.sees("turn_completed").await;
    assert!(fixture::tests_pass(&workspace(&harness.folders)).unwrap(), "{:#?}", harness.reported_lines());
    let story = harness.reported_lines();
    let calls = story.iter().filter(|s| s.starts_with("assistant_message tool")).count();
    assert_eq!(calls, story.iter().filter(|s| s.starts_with("tool_result")).count());
    assert_eq!(calls, 7, "{story:#?}");
    assert!(story.iter().any(|s| s.starts_with("usage_update")));
    let all: String = harness.gateway.delivered().iter().map(|e| e.body.to_string()).collect();
    assert!(!all.contains("sk-ant-scripted-model"));
}

#[tokio::test]
async fn real_agent_asks_is_interrupted_and_resumes_after_a_kill() {
    let Some(program) = program() else { return };
    let steps = [
        bash("touch asked-for"),
        Step::text("Now something long.")
            .and_tool("Bash", json!({"command": "sleep 300", "description": "Wait"})),
        Step::text("I go on after that."),
        Step::text("I remember."),
    ];
    let model = ModelServer::start(script(steps)).await.unwrap();
    let harness = Harness::empty().await;
    let agent = options(&program, &model, &harness);
    harness.begin(agent.clone(), false, Some("the word of the day is heliotrope"), |_| {});
    let asked = harness.event("question_asked").await;
    let question = &asked["questions"][0];
    assert!(question["question"].as_str().unwrap().contains("Bash"), "{question}");
    let mut labels =
        question["options"].as_array().unwrap().iter().map(|option| option["label"].as_str().unwrap());
    let label = labels.find(|label| !label.contains("lways")).unwrap().to_owned();
    let answers = vec![Answer { question: question["question"].as_str().unwrap().into(), answer: label }];
    let request_id = asked["requestId"].as_str().unwrap().parse().unwrap();
    let id = harness.gateway.send(Command::Answer { request_id, answers, modified_input: None });
    harness.gateway.acknowledged(id, "done").await;
    harness.gateway.sees("tool_result").await;
    assert!(workspace(&harness.folders).join("asked-for").exists());
    // Waiting needs no permission, so the agent does not ask.
    harness.gateway.sees_nth("assistant_message tool Bash", 2).await;
    let interrupt = harness.gateway.send(Command::Interrupt {});
    harness.gateway.acknowledged(interrupt, "done").await;
    assert!(!harness.reported_lines().iter().any(|s| s.starts_with("turn_completed")));
    assert_eq!(harness.reported_lines().iter().filter(|s| s.starts_with("tool_result")).count(), 2);

    harness.gateway.send(message("go on", MessagePriority::Queued));
    harness.gateway.sees("turn_completed").await;
    assert!(harness.reported_lines().iter().any(|s| s.contains("I go on after that.")));

    let harness = harness.next_run().await;
    harness.begin(agent, true, Some("what was the word?"), |_| {});
    harness.gateway.sees("turn_completed").await;
    let story = harness.reported_lines();
    assert!(story.iter().any(|s| s.contains("I remember.")), "{story:#?}");
    assert!(
        !story.iter().any(|s| s.contains("something long") || s.starts_with("tool_result")),
        "{story:#?}"
    );
    let last = prompts(&model).last().unwrap().text();
    assert!(last.contains("heliotrope"), "the model hears of the earlier run");
}

#[tokio::test]
async fn real_agent_is_paused_with_its_connection_open() {
    let Some(program) = program() else { return };
    let steps = [
        Step::text("The first half of a long sentence, and its second half.").waiting_inside("half"),
        Step::text("unused"),
    ];
    let model = ModelServer::start(script(steps)).await.unwrap();
    let harness = Harness::empty().await;
    harness.begin(options(&program, &model, &harness), false, Some("speak"), |_| {});
    model.wait_until(|requests| requests.iter().any(|request| request.step.is_some())).await;
    let pause = harness.gateway.send(Command::Pause {});
    harness.gateway.acknowledged(pause, "done").await;
    let count = harness.reported_lines().len();
    // The model continues its answer although the agent is idle.
    model.open("half");
    let beats = harness.gateway.heartbeats();
    harness.gateway.until("time passes", |gateway| (gateway.heartbeats() >= beats + 15).then_some(())).await;
    assert_eq!(harness.reported_lines().len(), count);
    let resume = harness.gateway.send(Command::Resume {});
    harness.gateway.acknowledged(resume, "done").await;
    harness.gateway.sees("turn_completed").await;
    let story = harness.reported_lines();
    assert!(story.iter().any(|s| s.ends_with("and its second half.")), "{story:#?}");
    assert_eq!(prompts(&model).len(), 1, "the call that was under way was not made again");
}

#[tokio::test]
async fn real_agent_is_steered_if_it_advertises_steering() {
    let Some(program) = program() else { return };
    let wait = "until [ -e go ]; do sleep 0.1; done";
    let steps = [Step { text: Some("I work.".into()), ..bash(wait) }, Step::text("I was steered.")];
    let model = ModelServer::start(script(steps)).await.unwrap();
    let harness = Harness::empty().await;
    harness.begin(options(&program, &model, &harness), false, Some("work"), |begin| {
        begin.config.allowed_tools = vec!["Bash".into()];
    });
    harness.gateway.sees("assistant_message tool Bash").await;
    if harness.abilities()["steerMidTurn"] != true {
        println!("not tested: this version of claude-agent-acp advertises no way to steer");
        return;
    }
    let id = harness.gateway.send(message("rather quickly", MessagePriority::Immediate));
    harness.gateway.acknowledged(id, "injected").await;
    std::fs::write(workspace(&harness.folders).join("go"), "").unwrap();
    harness.gateway.sees("turn_completed").await;
    let story = harness.reported_lines();
    assert_eq!(story.iter().filter(|s| s.starts_with("turn_started")).count(), 1, "{story:#?}");
    assert!(story.iter().any(|s| s == "assistant_message text I was steered."), "{story:#?}");
    assert!(
        prompts(&model).last().unwrap().text().contains("rather quickly"),
        "the model reads it in this turn"
    );
}

#[tokio::test]
async fn real_agent_in_a_project_follows_verdicts() {
    let Some(program) = program() else { return };
    let steps = [bash("touch first"), bash("touch second"), Step::text("So be it.")];
    let model = ModelServer::start(script(steps)).await.unwrap();
    let harness = Harness::in_project([Verdict::Ask, Verdict::Deny("Only one.")]).await;
    harness.begin(options(&program, &model, &harness), false, Some("make two files"), |_| {});
    let asked = harness.gateway.asks_for_permission(1).await;
    assert!(!workspace(&harness.folders).join("first").exists());
    harness.gateway.decide(&asked, "Allow", None);
    harness.gateway.sees_nth("tool_result", 2).await;
    let made = ["first", "second"].map(|name| workspace(&harness.folders).join(name).exists());
    assert_eq!(made, [true, false], "{:#?}", harness.reported_lines());
    let asked = harness.gateway.authorizations();
    let calls = asked.iter().map(|asked| (asked["tool"].clone(), asked["arguments"]["command"].clone()));
    let expected = ["touch first", "touch second"].map(|command| (json!("Bash"), json!(command)));
    assert_eq!(calls.collect::<Vec<_>>(), expected);
}
