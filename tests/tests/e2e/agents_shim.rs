//! The complete workflow with a shim: the one of `docs/writing-a-shim.md`, whose agent needs no model.

use std::path::Path;
use std::process::Command;

use pilothouse_tests::Session;
use serde_json::{Value, json};

use crate::authorization::{asked_about, resolve};
use crate::projects::project;
use crate::server::Server;

fn has_python() -> bool {
    let script = "import sys; sys.exit(sys.version_info < (3, 11))";
    let found = Command::new("python3").args(["-c", script]).status().is_ok_and(|status| status.success());
    assert!(found || std::env::var("NEXTEST_PROFILE").as_deref() != Ok("ci"), "no Python 3.11");
    if !found {
        println!("not tested: python3 is older than 3.11 or not installed");
    }
    found
}

async fn answer(session: &Session, view: &Value, label: &str) {
    let request = &view["pendingRequests"][0];
    let answers = json!([{ "question": request["questions"][0]["question"], "answer": label }]);
    session.post("/answer", json!({ "requestId": request["id"], "answers": answers })).await.expect(200);
}

/// The options of a shim that counts the lines of two files in the server's work folder.
fn line_counter(server: &Server) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let page = std::fs::read_to_string(root.join("docs/writing-a-shim.md")).unwrap();
    let program = page.split_once("```python\n").unwrap().1.split_once("```").unwrap().0;
    for (name, text) in [("shim.py", program), ("a.txt", "one\ntwo\n"), ("b.txt", "three\n")] {
        std::fs::write(server.work_folder().join(name), text).unwrap();
    }
    json!({ "command": "python3", "args": ["shim.py"],
        "env": { "PYTHONPATH": root.join("sidecar/shims/python") } })
}

#[tokio::test]
async fn call_of_a_shim_waits_in_the_decisions_of_its_project() {
    if !has_python() {
        return;
    }
    let server = Server::start(1).await;
    let api = server.api();
    let brief = json!({ "role": "Counter", "workstream": "api", "adapter": "shim",
        "providerConfig": line_counter(&server) });
    let agent = json!({ "projectId": project(&api, "Lines").await["id"], "brief": brief, "objective": "count the lines",
        "workingDirectory": server.work_folder(), "budgetCapUsd": "5", "allowUnmetered": true });
    let session = Session::spawn(&api, agent).await;

    let first = asked_about(&session, "count-1-a.txt").await;
    assert_eq!(first["kind"], "tool_approval", "{first}");
    resolve(&session.api, &first, json!({ "resolutionType": "approve" })).await;
    let second = asked_about(&session, "count-1-b.txt").await;
    resolve(&session.api, &second, json!({ "resolutionType": "reject", "rationale": "not that one" })).await;
    session.until_said("2 lines in 2 files").await;
    let activity = session.activity().await;
    assert!(!activity.iter().any(|line| line.to_string().contains("without asking")), "{activity:#?}");
}

#[tokio::test]
async fn agent_of_a_shim_is_asked_paused_and_resumed_after_a_kill() {
    if !has_python() {
        return;
    }
    let server = Server::start(10).await;
    let start = json!({ "adapter": "shim", "workingDirectory": server.work_folder(), "objective": "count the lines",
        "budgetCapUsd": "5", "allowUnmetered": true, "adapterOptions": line_counter(&server) });
    let session = Session::start(&server.api(), start).await;

    let view = session.until("a question", |view| view["status"] == "WaitingForInput").await;
    assert_eq!(view["pendingRequests"][0]["approval"]["toolName"], "read_file");
    answer(&session, &view, "Allow").await;
    let second = |view: &Value| view["pendingRequests"][0]["id"] == "count-1-b.txt";
    let view = session.until("the second question", second).await;
    answer(&session, &view, "Deny: not that one").await;
    session.until_said("2 lines in 2 files").await;
    session.until_status("Idle").await;
    let calls = session.tool_calls().await;
    assert_eq!(calls.len(), 2, "{calls:?}");

    for sidecar in server.sidecars() {
        sidecar.kill9();
    }
    session.until("hibernation", |view| view["hibernated"] == true).await;
    session.say("count them again", "Queued").await;
    session.until_said("Turn 2: count them again").await;
    let view = session.until("a question", |view| view["status"] == "WaitingForInput").await;
    assert_eq!(view["currentRun"]["ordinal"], 2);
    answer(&session, &view, "Always allow").await;
    session.until_said("3 lines in 2 files").await;
    session.until_status("Idle").await;
}
