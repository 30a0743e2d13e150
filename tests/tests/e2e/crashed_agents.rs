//! Agents of a project whose process is killed continue their conversations without a person (S2, "Crash recovery"): the native agent,
//! Claude Code and an ACP agent. Only their model is scripted.
//!
//! Functions in the cloud cannot reach that model, so these tests need the embedded server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;

use pilothouse_model_server::{Conversation, ModelServer, Script, Step};
use pilothouse_tests::processes::Sidecar;
use pilothouse_tests::{PATIENCE, ServerProcess, Session, programs};
use serde_json::{Value, json};

use crate::{agents_acp, agents_claude};

/// The agent says a word. In its second turn its process is killed, and the policy of the project resumes it.
async fn continues_after_a_crash(adapter: &str, environment: &[(&str, &str)], options: Value) {
    let conversation = Conversation {
        name: adapter.into(),
        steps: vec![
            Step::text("The word is heron."),
            Step::text("Working.").waiting("never"),
            Step::text("It was heron."),
        ],
        ..Conversation::default()
    };
    let script = Script { conversations: vec![conversation], ..Script::default() };
    let model = ModelServer::start(script).await.unwrap();
    let base_url = model.base_url();
    let keys = [("ANTHROPIC_BASE_URL", &*base_url), ("ANTHROPIC_API_KEY", "a-key-of-a-test")];
    let environment: Vec<_> = keys.into_iter().chain(environment.iter().copied()).collect();
    let server = ServerProcess::start_with(1, &environment).await;
    let api = server.api();
    let conditions = json!({ "minTrustScore": 0, "cooldownMs": 0 });
    let shop = json!({
        "name": "Shop", "workstreams": [{ "id": "shop", "name": "The shop" }],
        "crashRecovery": { "autoRestart": true, "autoRestartConditions": conditions },
    });
    let shop = api.post("/api/projects", shop).await.expect(201).body;
    let body = json!({
        "projectId": shop["id"],
        "brief": { "role": "Builder", "workstream": "shop", "adapter": adapter, "providerConfig": options },
        "objective": format!("Tidy the shop. [[script:{adapter}]]"),
        "workingDirectory": server.work_folder(),
        "budgetCapUsd": "5",
    });
    let session = Session::spawn(&api, body).await;
    let id = session.agent_id();
    session.until_said("The word is heron.").await;
    session.until_status("Idle").await;
    session.say("go on", "Queued").await;
    let asked = model.wait_until(|all| all.iter().any(|prompt| prompt.step == Some(1)));
    tokio::time::timeout(PATIENCE, asked).await.unwrap();
    // A message whose delivery the sidecar has not reported stays uncertain, and a person decides about it.
    session.until_status("Running").await;
    let delivered = async || session.queue().await["items"].as_array().unwrap().is_empty().then_some(());
    session.until_within(PATIENCE, "the delivery of the message", delivered).await;
    // Claude Code asks its model before it has written the message.
    let is_written = async || {
        let mut files = BTreeMap::new();
        crate::leaks::files(&server.data(), &mut files);
        let has_message = |(path, text): (&PathBuf, &Vec<u8>)| {
            path.extension().is_some_and(|it| it == "jsonl")
                && String::from_utf8_lossy(text).contains("go on")
        };
        (adapter == "native" || files.iter().any(has_message)).then_some(())
    };
    session.until_within(PATIENCE, "the message in the transcript of the agent", is_written).await;
    server.sidecars().iter().for_each(Sidecar::kill9);

    session.until_said("It was heron.").await;
    let view = session.until_status("Idle").await;
    assert_eq!((&view["retryCount"], &view["currentRun"]["ordinal"]), (&json!(1), &json!(2)), "{view}");
    let last = model.prompts().into_iter().rfind(|prompt| prompt.step == Some(2)).unwrap().text();
    assert!(last.contains("The word is heron.") && last.contains("go on"), "the whole conversation: {last}");
    let listed = api.get(&format!("/api/agents/{id}/checkpoints")).await.expect(200).body;
    let crash = &listed["items"][0];
    assert_eq!((&crash["serializedBy"], &crash["run"]), (&json!("crash_recovery"), &json!(1)), "{listed}");
    assert_eq!(crash["checkpoint"]["sdk"], adapter, "{listed}");
    let table = command(&server, &["agent", "checkpoints", &id]).await;
    assert!(table.contains("crash recovery") && table.contains(adapter), "{table}");
}

/// The output of `pilothouse`.
async fn command(server: &ServerProcess, arguments: &[&str]) -> String {
    let mut program = tokio::process::Command::new(programs::pilothouse());
    program.arg("--url").arg(server.url()).arg("--data").arg(server.data()).args(arguments);
    let output = program.stdin(Stdio::null()).kill_on_drop(true).output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn quiet(home: &tempfile::TempDir) -> Value {
    json!({ "HOME": home.path(), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1" })
}

#[tokio::test]
async fn native_agent_continues_after_a_crash() {
    continues_after_a_crash("native", &[], json!({})).await;
}

#[tokio::test]
async fn claude_code_continues_after_a_crash() {
    let Some(binary) = agents_claude::binary() else { return };
    let home = tempfile::tempdir().unwrap();
    let environment = [("PILOTHOUSE_CLAUDE", binary.to_str().unwrap())];
    continues_after_a_crash("claude", &environment, json!({ "environment": quiet(&home) })).await;
}

#[tokio::test]
async fn acp_agent_continues_after_a_crash() {
    let Some(program) = agents_acp::program() else { return };
    let home = tempfile::tempdir().unwrap();
    let environment = [("PILOTHOUSE_ACP_CLAUDE", program.to_str().unwrap())];
    continues_after_a_crash("acp", &environment, json!({ "env": quiet(&home) })).await;
}
