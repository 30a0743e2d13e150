//! Claude Code end to end: it works in a repository while its owner steers, pauses, answers and approves.
//!
//! Only the model is scripted. `PILOTHOUSE_CLAUDE` names the binary; the default is the one that `tests/agents` installs. Without
//! it the tests are skipped.

use std::path::{Path, PathBuf};

use pilothouse_model_server::{ModelServer, Script, Step, Tokens, fixture};
use pilothouse_tests::{ServerProcess, Session};
use serde_json::{Value, json};

use crate::server::Server;

/// Submits the agent's output, as its system prompt requires.
const REPORT: &str = r#"curl -sS -X POST "$PILOTHOUSE_API_URL/api/agent/sessions/$PILOTHOUSE_SESSION_ID/output" -H "Authorization: Bearer $PILOTHOUSE_API_KEY" -H 'Content-Type: application/json' -d '{"outputLineCount": 2, "filesChanged": 1, "testsAdded": 0, "allTestsPassing": true}'"#;

pub(crate) fn binary() -> Option<PathBuf> {
    let named = std::env::var_os("PILOTHOUSE_CLAUDE").map(PathBuf::from);
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/agents/node_modules/.bin/claude");
    let found = named.or(Some(installed)).filter(|path| path.is_file());
    if found.is_none() {
        eprintln!("not tested: Claude Code is not installed here (`tests/agents` installs it)");
    }
    found
}

async fn started(
    server: &Server,
    model: &ModelServer,
    binary: &Path,
    folder: &Path,
    allowed: &[&str],
) -> Session {
    Session::start(&server.api(), work(server, model, binary, folder, allowed)).await
}

fn work(server: &Server, model: &ModelServer, binary: &Path, folder: &Path, allowed: &[&str]) -> Value {
    // Empty, so that the user's shell profile has no effect.
    let home = server.work_folder().join("agent-home");
    std::fs::create_dir_all(&home).unwrap();
    json!({
        "workingDirectory": folder,
        "objective": fixture::TASK,
        "modelId": "claude-sonnet-4-5",
        "adapter": "claude",
        "allowedTools": allowed,
        "planApprovalRequired": true,
        "budgetCapUsd": "5",
        "adapterOptions": {
            "binary": binary,
            "startInPlanMode": true,
            "environment": {
                "HOME": home,
                "ANTHROPIC_BASE_URL": model.base_url(),
                "ANTHROPIC_API_KEY": "a-key-of-a-test",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            },
        },
    })
}

/// The model: shows a plan, makes the tests pass, waits at gates, and submits its output.
fn script() -> Script {
    let mut script = fixture::make_the_tests_pass().unwrap();
    script.conversations.retain(|conversation| conversation.offers.as_deref() == Some("Read"));
    let steps = &mut script.conversations[0].steps;
    let report = Step::tool("Bash", json!({ "command": REPORT, "description": "Report the output" }));
    let last = steps.len() - 1;
    steps.insert(last, report);
    steps[1].wait = Some("steer".into());
    steps[3].wait = Some("pause".into());
    steps.insert(0, Step::tool("ExitPlanMode", json!({ "plan": "1. Look\n2. Fix\n3. Test" })));
    script
}

/// Waits until the session has a pending request of this kind.
async fn pending(session: &Session, kind: &str) -> Value {
    let view = session
        .until(kind, |view| view["pendingRequests"][0]["id"].is_string() && view["status"] == kind)
        .await;
    view["pendingRequests"][0].clone()
}

#[tokio::test]
async fn claude_code_makes_the_tests_pass_with_its_owner() {
    let Some(binary) = binary() else { return };
    let server = Server::start(1).await;
    let model = ModelServer::start(script()).await.unwrap();
    let folder = server.work_folder().join("calculator");
    fixture::broken_calculator(&folder).unwrap();
    assert!(!fixture::tests_pass(&folder).unwrap());
    let session = started(&server, &model, &binary, &folder, &["Bash"]).await;

    let plan = pending(&session, "WaitingForApproval").await;
    session.post("/plan/approve", json!({ "requestId": plan["id"] })).await.expect(200);

    // Steering: the message appears in a later request of the same turn.
    model.wait_for(3).await;
    let steering = session.say("keep the changes small", "Immediate").await;
    session.until_reported(&["message_ack", steering["messageId"].as_str().unwrap()]).await;
    model.open("steer");

    // The owner grants the permission to edit for the session.
    let edit = pending(&session, "WaitingForInput").await;
    let question = edit["questions"][0]["question"].as_str().unwrap_or_else(|| panic!("{edit}")).to_owned();
    assert!(question.contains("Edit"), "{question}");
    let answers = json!([{ "question": question, "answer": "Allow for this session" }]);
    session.post("/answer", json!({ "requestId": edit["id"], "answers": answers })).await.expect(200);

    // Pauses during a model call; nothing happens until the resume.
    model.wait_for(5).await;
    session.post("/pause", json!({})).await;
    session.until_reported(&["pause_ack"]).await;
    model.open("pause");
    session.until_status("Paused").await;
    let asked = model.prompts().len();
    assert!(!fixture::tests_pass(&folder).unwrap());
    assert_eq!(model.prompts().len(), asked, "no model call during the pause");
    session.post("/resume", json!({})).await;

    let view = session.until("output", |view| view["hasPendingReview"] == true).await;
    assert!(fixture::tests_pass(&folder).unwrap());
    assert_eq!(view["output"]["filesChanged"], 1, "{}", view["output"]);
    let said = session.messages().await;
    assert!(
        said.iter().any(|m| m["messageId"] == steering["messageId"]),
        "the message is in the conversation"
    );
    for prompt in model.prompts() {
        assert!(!prompt.is_refused(), "{:?}", prompt.refused);
    }
    assert!(model.prompts().iter().any(|prompt| prompt.text().contains("keep the changes small")));
    assert_ne!(view["budget"]["estimatedCostUsd"], "0");
    session.post("/approve", json!({ "outputId": view["output"]["outputId"] })).await.expect(200);
    session.until_status("Completed").await;
}

#[tokio::test]
async fn killed_sidecar_of_claude_code_resumes_its_conversation() {
    let Some(binary) = binary() else { return };
    let server = Server::start(1).await;
    let steps = [
        Step::text("The word is heron."),
        Step::text("Working.").waiting("never"),
        Step::text("It was heron."),
    ];
    let model = ModelServer::start(Script::of(steps)).await.unwrap();
    let folder = server.work_folder();
    let session = started(&server, &model, &binary, &folder, &[]).await;
    session.until_said("The word is heron.").await;
    session.until_status("Idle").await;
    session.say("go on", "Queued").await;
    model.wait_for(2).await;
    let sidecars = server.sidecars();
    let [sidecar] = &sidecars[..] else { panic!("{} sidecars", sidecars.len()) };
    sidecar.kill9();
    session.until_status("Failed").await;
    session.post("/retry", json!({ "additionalInstruction": "what was the word?" })).await;
    session.until_said("It was heron.").await;
    let last = model.prompts().pop().unwrap();
    assert!(!last.is_refused(), "{:?}", last.refused);
    let text = last.text();
    assert!(text.contains("The word is heron.") && text.contains("what was the word?"), "{text}");
}

/// The cap is reached within a turn and raised, and the session is resumed: the agent completes the turn, and then receives the waiting
/// message.
#[tokio::test]
async fn task_at_its_cap_is_finished_after_a_raise() {
    let Some(binary) = binary() else { return };
    let server = Server::start(1).await;
    // Each of these calls costs 0.3 dollars.
    let dear = Tokens { input: 100, output: 20_000, ..Tokens::default() };
    let echo =
        |what: &str| Step::tool("Bash", json!({ "command": format!("echo {what}"), "description": "Echo" }));
    let steps = [
        echo("one").taking(dear),
        echo("two").taking(dear),
        Step::text("The task is done."),
        Step::text("Bye."),
    ];
    let model = ModelServer::start(Script::of(steps)).await.unwrap();
    let folder = server.work_folder();
    let mut body = work(&server, &model, &binary, &folder, &["Bash"]);
    body["budgetCapUsd"] = json!("0.25");
    body["adapterOptions"]["startInPlanMode"] = json!(false);
    let session = Session::start(&server.api(), body).await;

    let view = session.until_status("Paused").await;
    let budget = &view["budget"];
    assert_eq!((&view["pausedReason"], &budget["exhausted"]), (&json!("budget-exhausted"), &json!(true)));
    assert_eq!(model.prompts().len(), 1, "no model call after the one that reached the cap");
    assert_eq!(budget["estimatedCostUsd"], "0.3003");
    session.say("and then say bye", "Queued").await;
    session.post("/resume", json!({})).await.refused(409, "budget-exhausted");

    session.patch("/budget", json!({ "capUsd": "5" })).await.expect(200);
    session.post("/resume", json!({})).await.expect(202);
    session.until_said("The task is done.").await;
    session.until_said("Bye.").await;
    let view = session.until_status("Idle").await;
    assert_eq!((&view["budget"]["exhausted"], &view["budget"]["overshootUsd"]), (&json!(false), &json!("0")));
    assert_eq!(view["metrics"]["turnCount"], 2, "the paused turn, and the turn of the message");
    let calls = session.tool_calls().await;
    let statuses: Vec<_> = calls.iter().map(|call| call["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["Success", "Success"], "{calls:#?}");
}

/// A result that violates the schema of the brief is an error of the tool, and Claude Code calls it again.
#[tokio::test]
async fn claude_code_corrects_a_result_that_violates_its_schema() {
    let Some(binary) = binary() else { return };
    let submit = |result: Value| {
        Step::tool("mcp__pilothouse__submit_output", json!({ "allTestsPassing": true, "result": result }))
    };
    let steps = [submit(json!({ "total": "seven" })), submit(json!({ "total": 7 })), Step::text("Counted.")];
    let model = ModelServer::start(Script::of(steps)).await.unwrap();
    let home = tempfile::tempdir().unwrap();
    let environment = [
        ("ANTHROPIC_BASE_URL", &*model.base_url()),
        ("ANTHROPIC_API_KEY", "a-key-of-a-test"),
        ("PILOTHOUSE_CLAUDE", binary.to_str().unwrap()),
    ];
    let server = ServerProcess::start_with(1, &environment).await;
    let shop = crate::projects::project(&server.api(), "Shop").await;
    let quiet = json!({ "HOME": home.path(), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1" });
    let schema =
        json!({ "type": "object", "required": ["total"], "properties": { "total": { "type": "integer" } } });
    let body = json!({
        "projectId": shop["id"],
        "brief": { "role": "Counter", "workstream": "api", "adapter": "claude", "modelPreference": "claude-sonnet-4-5",
            "providerConfig": { "environment": quiet }, "outputSchema": schema },
        "objective": "Count the tea.", "workingDirectory": server.work_folder(), "budgetCapUsd": "5",
    });
    let session = Session::spawn(&server.api(), body).await;
    let view = session.until("output", |view| view["hasPendingReview"] == true).await;
    assert_eq!(
        (&view["output"]["result"], &view["metrics"]["turnCount"]),
        (&json!({ "total": 7 }), &json!(1))
    );
    let calls = session.tool_calls().await;
    assert_eq!(
        (&calls[0]["status"], &calls[1]["status"]),
        (&json!("Error"), &json!("Success")),
        "{calls:#?}"
    );
    assert!(calls[0]["result"].to_string().contains("- /total must be of type integer"), "{calls:#?}");
}
