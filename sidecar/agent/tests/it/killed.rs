//! A process that is killed at random points resumes with the same conversation (S1 9).

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_agent::model::genai::GenaiModel;
use pilothouse_agent::model::registry::Api;
use pilothouse_agent::session::{PromptOptions, SessionError, Start};
use pilothouse_agent::tree::SessionTree;
use pilothouse_model_server::{Conversation, ModelServer, Progress, Script, Step};
use rand::Rng;
use serde_json::json;

use crate::support::*;

const STEPS: usize = 15;
const FOLDER: &str = "PILOTHOUSE_TEST_KILLED_FOLDER";
const URL: &str = "PILOTHOUSE_TEST_KILLED_URL";

/// The process that the other test starts and kills.
#[tokio::test]
async fn child() {
    let (Ok(folder), Ok(url)) = (std::env::var(FOLDER), std::env::var(URL)) else { return };
    let registry = registry_of(Api::AnthropicMessages, Some(url), 200_000);
    let model = Arc::new(GenaiModel::new(Arc::clone(&registry)));
    let mut setup = SessionSetup::with_registry(model, vec![TestTool::echo()], registry);
    setup.config.cwd = PathBuf::from(&folder);
    setup.config.sessions = PathBuf::from(&folder);
    let open = Open::start(setup.config.clone(), Start::ContinueRecent);
    let worked = if open.session.messages().is_empty() {
        open.session.prompt("go", PromptOptions::default()).await.map(drop)
    } else {
        open.session.resume().await.map(drop)
    };
    match worked {
        Ok(()) | Err(SessionError::NothingToDo) => {}
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeatedly_killed_agent_resumes_the_same_conversation() {
    let call = |at: usize| Step {
        text: Some(format!("step {at}")),
        ..Step::tool("echo", json!({ "text": format!("a{at}") }))
            .and_tool("echo", json!({ "text": format!("b{at}") }))
    };
    let steps = (0..STEPS).map(call).chain([Step::text("the end")]).collect();
    let conversation = Conversation { progress: Progress::History, steps, ..Conversation::default() };
    let script = Script { conversations: vec![conversation], ..Script::default() };
    let server = ModelServer::start(script).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut kills = 0;
    loop {
        let mut child = tokio::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed::child", "--nocapture"])
            .env(FOLDER, folder.path())
            .env(URL, server.openai_base_url())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        // Early lives are shorter, so that some process reaches the end.
        let life = Duration::from_micros(rand::rng().random_range(15_000..80_000 + kills * 6_000));
        if let Ok(status) = tokio::time::timeout(life, child.wait()).await {
            assert!(status.unwrap().success(), "it ends on its own without an error");
            break;
        }
        child.kill().await.unwrap();
        kills += 1;
        assert!(kills < 2_000, "it comes to no end");
    }
    let tree =
        SessionTree::continue_recent(folder.path(), &folder.path().to_string_lossy()).unwrap().unwrap();
    let messages = tree.context().messages;
    let texts = texts(&messages);
    let said: Vec<&String> = texts.iter().filter(|text| text.starts_with("assistant")).collect();
    let expected: Vec<String> =
        (0..STEPS).map(|at| format!("assistant: step {at}")).chain(["assistant: the end".into()]).collect();
    assert_eq!(said, expected.iter().collect::<Vec<_>>(), "after {kills} kills");
    assert_eq!(texts.iter().filter(|text| text.starts_with("user")).count(), 1);
    let results: Vec<&String> =
        texts.iter().filter(|text| text.starts_with("result") || text.starts_with("error")).collect();
    assert_eq!(results.len(), 2 * STEPS, "each call has one result");
    let made_up = results.iter().filter(|text| text.contains("The call was cut off")).count();
    assert!(made_up <= 2 * usize::try_from(kills).unwrap());
    let refused: Vec<_> = server.prompts().into_iter().filter_map(|request| request.refused).collect();
    assert!(refused.is_empty(), "the provider never saw a broken conversation: {refused:?}");
    eprintln!("{kills} kills, {made_up} calls cut off");
}
