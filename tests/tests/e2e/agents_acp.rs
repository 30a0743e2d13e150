//! The complete workflow with an agent of the Agent Client Protocol: `claude-agent-acp`, if it is installed (`tests/agents`). Only its
//! model is scripted.
//!
//! Functions in the cloud cannot reach that model, so these tests need the embedded server.

use std::path::{Path, PathBuf};

use pilothouse_model_server::{Conversation, ModelServer, Script, Step, fixture};
use pilothouse_tests::{PATIENCE, ServerProcess, Session};
use serde_json::{Value, json};

/// Must not appear anywhere.
const KEY: &str = "sk-ant-the-key-of-this-acp-agent";

/// The program: `PILOTHOUSE_ACP_CLAUDE`, or the one that `tests/agents` installs.
pub(crate) fn program() -> Option<PathBuf> {
    let named = std::env::var_os("PILOTHOUSE_ACP_CLAUDE").map(PathBuf::from);
    let installed =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/agents/node_modules/.bin/claude-agent-acp");
    let found = named.into_iter().chain([installed]).find(|path| path.exists());
    if found.is_none() {
        println!("not tested: claude-agent-acp is not installed; `tests/agents` installs it");
    }
    found
}

/// The script of the fixture, whose last message waits for a gate, followed by an endless command and further messages.
fn script() -> Script {
    let mut script = fixture::make_the_tests_pass().unwrap();
    script.conversations.retain(|conversation| conversation.offers.as_deref() == Some("Read"));
    let wait = json!({ "command": "sleep 600", "description": "Wait" });
    script.conversations[0].steps.extend([
        Step::text("Something long.").and_tool("Bash", wait),
        Step::text("I stopped, and go on."),
        Step::text("I remember all of it."),
    ]);
    script
}

/// The server's sidecars inherit the path of the program in its environment.
async fn server_with(program: &Path) -> ServerProcess {
    ServerProcess::start_with(10, &[("PILOTHOUSE_ACP_CLAUDE", program.to_str().unwrap())]).await
}

/// The `adapterOptions` of an agent that calls the scripted model.
fn options(server: &ServerProcess, model: &ModelServer) -> Value {
    let home = server.data().with_file_name("agent-home");
    std::fs::create_dir_all(&home).unwrap();
    let environment = json!({
        "HOME": home, "ANTHROPIC_BASE_URL": model.base_url(), "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    });
    json!({ "env": environment })
}

/// Starts a session whose agent asks for permission to run tools that are not listed.
async fn started(server: &ServerProcess, model: &ModelServer, allowed: &[&str]) -> Session {
    let work = json!({
        "adapter": "acp", "workingDirectory": server.work_folder(), "objective": fixture::TASK, "allowedTools": allowed,
        "budgetCapUsd": "5",
        "adapterOptions": options(server, model),
    });
    Session::start(&server.api(), work).await
}

async fn allow(session: &Session, view: &Value) {
    let request = &view["pendingRequests"][0];
    let question = &request["questions"][0];
    let labels = question["options"].as_array().unwrap().iter().filter_map(|option| option["label"].as_str());
    let label =
        labels.into_iter().find(|label| label.starts_with("Allow") && !label.contains("lways")).unwrap();
    let answers = json!([{ "question": question["question"], "answer": label }]);
    session.post("/answer", json!({ "requestId": request["id"], "answers": answers })).await.expect(200);
}

#[tokio::test]
async fn acp_agent_makes_the_tests_pass_and_resumes_after_a_kill() {
    let Some(program) = program() else { return };
    let model = ModelServer::start(script()).await.unwrap();
    let server = server_with(&program).await;
    let work = server.work_folder();
    fixture::broken_calculator(&work).unwrap();
    assert!(!fixture::tests_pass(&work).unwrap(), "the tests fail at first");

    // The agent may run commands and read; it asks before edits.
    let session = started(&server, &model, &["Bash", "Read"]).await;
    for _ in 0..2 {
        let view = session.until("a question", |view| view["status"] == "WaitingForInput").await;
        let asked = view["pendingRequests"][0]["questions"][0]["question"].as_str().unwrap();
        assert!(asked.contains("Edit"), "{asked}");
        allow(&session, &view).await;
        session
            .until("an answer", |now| now["pendingRequests"][0]["id"] != view["pendingRequests"][0]["id"])
            .await;
    }
    session.until_status("Idle").await;
    assert!(fixture::tests_pass(&work).unwrap(), "the tests pass now");
    let calls = session.tool_calls().await;
    let names: Vec<_> = calls.iter().filter_map(|call| call["toolName"].as_str()).collect();
    assert_eq!(names, ["Bash", "Read", "Bash", "Edit", "Bash", "Edit", "Bash"]);

    // The endless command of a follow-up is interrupted.
    session.say("and now something long", "Queued").await;
    session.until_said("Something long.").await;
    session.post("/interrupt", json!({})).await.expect(202);
    session.until_status("Interrupted").await;
    let calls = session.tool_calls().await;
    assert!(calls.iter().all(|call| call["status"] != "Running"), "every call has its result");

    session.say("go on", "Queued").await;
    session.until_said("I stopped, and go on.").await;
    session.until_status("Idle").await;

    // The sidecar is killed with its agent; the next message resumes the conversation.
    for sidecar in server.sidecars() {
        sidecar.kill9();
    }
    session.until("hibernation", |view| view["hibernated"] == true).await;
    session.say("do you remember?", "Queued").await;
    session.until_said("I remember all of it.").await;
    let view = session.until_status("Idle").await;
    assert_eq!(view["currentRun"]["ordinal"], 2);
    let last = model.prompts().last().unwrap().text();
    assert!(last.contains(fixture::TASK) && last.contains("do you remember?"), "the whole conversation");
    assert_ne!(view["budget"]["estimatedCostUsd"], "0", "{view}");
    assert!(!session.everything().await.contains(KEY), "the API key of the model is visible");
}

/// The agent names the files of a call in messages of the protocol, some of them only when the call has ended.
#[tokio::test]
async fn files_that_the_brief_names_become_artifacts_of_an_acp_agent() {
    let Some(program) = program() else { return };
    let home = tempfile::tempdir().unwrap();
    let model = ModelServer::start(Script::default()).await.unwrap();
    let environment = [
        ("ANTHROPIC_BASE_URL", &*model.base_url()),
        ("ANTHROPIC_API_KEY", KEY),
        ("PILOTHOUSE_ACP_CLAUDE", program.to_str().unwrap()),
    ];
    let server = ServerProcess::start_with(1, &environment).await;
    let (api, work) = (server.api(), server.work_folder());
    let write = |path: &str, content: &str| {
        Step::tool("Write", json!({ "file_path": work.join(path), "content": content }))
    };
    let guide = work.join("docs/guide.md");
    let edit = json!({ "file_path": guide, "old_string": "Kettles", "new_string": "Teapots" });
    let steps = vec![
        write("docs/guide.md", "Kettles have a lid.\n"),
        write("notes.txt", "Not a result.\n"),
        Step::tool("Edit", edit),
        Step::text("Written."),
    ];
    let writer = Conversation { offers: Some("Write".into()), steps, ..Conversation::default() };
    model.play(Script { conversations: vec![writer], ..Script::default() });

    let shop = json!({ "name": "Shop", "workstreams": [{ "id": "api", "name": "The API" }] });
    let shop = api.post("/api/projects", shop).await.expect(201).body;
    let quiet = json!({ "HOME": home.path(), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1" });
    let body = json!({
        "projectId": shop["id"],
        "brief": { "role": "Writer", "workstream": "api", "adapter": "acp", "providerConfig": { "env": quiet },
            "artifactFiles": [{ "pattern": "docs/*.md", "kind": "document" }] },
        "objective": "Write a guide",
        "workingDirectory": work,
        "budgetCapUsd": "5",
    });
    let session = Session::spawn(&api, body).await;
    session.until_said("Written.").await;
    let calls = session.tool_calls().await;
    let failed: Vec<_> = calls.iter().filter(|call| call["result"]["isError"] == true).collect();
    assert!(failed.is_empty() && calls.len() == 3, "{calls:#?}");
    assert_eq!(std::fs::read_to_string(&guide).unwrap(), "Teapots have a lid.\n");

    let listed = api.get("/api/artifacts").await.expect(200).body["items"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    assert_eq!((&listed[0]["path"], &listed[0]["version"]), (&json!("docs/guide.md"), &json!(2)));
    for (version, content) in [(1, "Kettles have a lid.\n"), (2, "Teapots have a lid.\n")] {
        let path = format!("/api/artifacts/{}/versions/{version}/content", listed[0]["id"].as_str().unwrap());
        assert_eq!(api.get(&path).await.expect(200).text, content);
    }
}

/// The agent calls the tools of its sidecar, and the owner reviews what it has submitted.
#[tokio::test]
async fn acp_agent_proposes_a_consolidation_and_its_output_is_reviewed() {
    let Some(program) = program() else { return };
    let model = ModelServer::start(Script::default()).await.unwrap();
    let plays = |steps: Vec<Step>| {
        let agent = Conversation { offers: Some("Write".into()), steps, ..Conversation::default() };
        model.play(Script { conversations: vec![agent], ..Script::default() });
    };
    let tool = |name: &str, input: Value| Step::tool(format!("mcp__pilothouse__{name}"), input);
    let server = server_with(&program).await;
    let api = server.api();
    let lore = json!({ "name": "lore", "description": "For tests", "instructions": "Old." });
    let lore = api.post("/api/agents/skills", lore).await.expect(201).body["id"].clone();
    let skill = format!("/api/agents/skills/{}", lore.as_str().unwrap());

    let pill = json!({ "skillId": lore, "content": "Kettles need lids.", "category": "Tip" });
    plays(vec![tool("memory_pill", pill), Step::text("Recorded.")]);
    let teacher = started(&server, &model, &[]).await;
    teacher.until_said("Recorded.").await;
    teacher.until_status("Idle").await;
    let pill = api.get(&skill).await.expect(200).body["memoryPills"][0]["id"].clone();

    let proposal = json!({ "skillId": lore, "pillIds": [pill], "updatedInstructions": "Use lids." });
    plays(vec![
        tool("propose_consolidation", proposal),
        tool("submit_output", json!({ "allTestsPassing": true })),
        Step::text("Submitted."),
    ]);
    let body = json!({
        "adapter": "acp", "workingDirectory": server.work_folder(), "budgetCapUsd": "5",
        "adapterOptions": options(&server, &model),
    });
    let session = api.post(&format!("{skill}/consolidate"), body).await.expect(201).body;
    let session = Session::of_start(&api, session);
    let view = session.until("output", |view| view["hasPendingReview"] == true).await;
    let calls = session.tool_calls().await;
    let names: Vec<_> = calls.iter().filter_map(|call| call["toolName"].as_str()).collect();
    assert_eq!(names, ["mcp__pilothouse__propose_consolidation", "mcp__pilothouse__submit_output"]);
    assert_eq!(view["output"]["allTestsPassing"], true, "{view}");
    let proposed = api.get(&skill).await.expect(200).body;
    assert_eq!(proposed["consolidation"]["proposal"]["updatedInstructions"], "Use lids.", "{proposed}");

    session.post("/approve", json!({ "outputId": view["output"]["outputId"] })).await.expect(200);
    session.until_status("Completed").await;
    let consolidated = async || {
        let skill = api.get(&skill).await.expect(200).body;
        (skill["version"] == 2).then_some(skill)
    };
    let skill = session.until_within(PATIENCE, "the consolidation", consolidated).await;
    assert_eq!(skill["instructions"], "Use lids.");
}
