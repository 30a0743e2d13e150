//! The main job with the native agent: a repository whose tests fail, an agent that makes them pass, and its owner, who
//! steers, pauses, resumes and approves. Only the model is faked: a scripted server that says what a model would.
//!
//! A server in the cloud has no way to that model, so this runs on the embedded one alone.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use pilothouse_model_server::{ModelServer, Script, Step, fixture};
use pilothouse_tests::{ServerProcess, Session, programs};
use serde_json::{Value, json};

/// The key of the model. Nobody is to see it.
const KEY: &str = "sk-ant-the-key-of-the-main-job";
/// How long a model is watched that is not to be asked: an agent that is not held asks within milliseconds.
const A_WHILE: Duration = Duration::from_secs(2);

/// The script of the fixture, for the native agent; it waits for the test at two of its answers, and submits its output.
fn script() -> Script {
    let mut script = fixture::make_the_tests_pass().unwrap();
    script.conversations.retain(|conversation| conversation.offers.as_deref() == Some("read"));
    let steps = &mut script.conversations[0].steps;
    steps[2].wait = Some("steer".into());
    steps[4].wait = Some("pause".into());
    let submit = json!({ "allTestsPassing": true, "testsAdded": 0, "filesChanged": 1, "outputLineCount": 4 });
    steps.insert(steps.len() - 1, Step::tool("submit_output", submit));
    let last = steps.last_mut().unwrap();
    last.text = Some("All tests pass. Differences are taken from the left now.".into());
    script
}

/// `pilothouse` with these arguments, against `server`.
async fn pilothouse(server: &ServerProcess, folder: &Path, arguments: &[&str]) -> Value {
    let mut program = tokio::process::Command::new(programs::pilothouse());
    program.arg("--json").arg("--url").arg(server.url()).arg("--data").arg(server.data()).args(arguments);
    let said = program.current_dir(folder).stdin(Stdio::null()).kill_on_drop(true).output().await.unwrap();
    let complaint = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "pilothouse {arguments:?}: {complaint}");
    serde_json::from_slice(&said.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&said.stdout)))
}

#[tokio::test]
async fn the_native_agent_makes_the_tests_pass_and_is_steered_paused_resumed_and_approved_on_the_way() {
    let model = ModelServer::start(script()).await.unwrap();
    let environment = [("ANTHROPIC_BASE_URL", &*model.base_url()), ("ANTHROPIC_API_KEY", KEY)];
    let server = ServerProcess::start_with(1, &environment).await;
    let work = server.work_folder();
    fixture::broken_calculator(&work).unwrap();
    assert!(!fixture::tests_pass(&work).unwrap(), "there is something to do");

    let started =
        pilothouse(&server, &work, &["run", fixture::TASK, "--adapter", "native", "--detach"]).await;
    let id = started["session"]["id"].as_str().unwrap().to_owned();
    let session = Session::new(server.api(), id, started);

    // Steered, while the model thinks about its third answer.
    within(model.wait_for(3)).await;
    let message = session.say("and keep the names as they are", "Immediate").await;
    session.until_told(&["message_ack", message["messageId"].as_str().unwrap()]).await;
    model.open("steer");
    session
        .until_messages("the message", |all| all.iter().any(|m| m["messageId"] == message["messageId"]))
        .await;
    let fourth = within(model.wait_for(4)).await;
    assert!(fourth[3].text().contains("and keep the names as they are"), "the model hears it next");

    // Paused, while the model thinks about its fifth; what it calls then is held.
    within(model.wait_for(5)).await;
    session.post("/pause", json!({})).await.expect(202);
    session.until_told(&["pause_ack"]).await;
    model.open("pause");
    session.until_status("Paused").await;
    let before = std::fs::read_to_string(work.join("calculator/evaluate.py")).unwrap();
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(model.prompts().len(), 5, "the model is asked while it is paused");
    assert_eq!(std::fs::read_to_string(work.join("calculator/evaluate.py")).unwrap(), before);
    session.post("/resume", json!({})).await.expect(202);

    let view = session.until("output", |view| view["hasPendingReview"] == true).await;
    assert_eq!(view["status"], "Idle");
    assert!(fixture::tests_pass(&work).unwrap(), "the tests were made to pass, for real");
    let output = &view["output"];
    assert_eq!((&output["allTestsPassing"], &output["filesChanged"]), (&json!(true), &json!(1)), "{output}");
    assert_ne!(view["budget"]["estimatedCostUsd"], "0", "{view}");
    assert_eq!(view["metrics"]["turnCount"], 1, "one turn, whatever happened in it");

    let calls = session.tool_calls().await;
    let names: Vec<_> = calls.iter().filter_map(|call| call["toolName"].as_str()).collect();
    assert_eq!(names, ["bash", "read", "bash", "edit", "bash", "edit", "bash", "submit_output"]);
    assert!(calls.iter().all(|call| call["status"] != "Running"), "each call has its result");

    let id = view["output"]["outputId"].as_str().unwrap();
    let view = session.post("/approve", json!({ "outputId": id })).await.expect(200).body;
    assert_eq!(view["status"], "Completed");
    assert!(!session.everything().await.contains(KEY), "the key of the model is told");
    for request in model.requests() {
        assert!(!request.is_refused(), "the model refused: {:?}", request.refused);
    }
}

async fn within<T>(waits: impl Future<Output = T>) -> T {
    tokio::time::timeout(pilothouse_tests::PATIENCE, waits).await.expect("the model is asked")
}
