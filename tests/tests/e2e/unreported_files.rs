//! Files that an agent of a project did not report as artifacts are listed when its process ends (decision 96), through real processes.

use pilothouse_tests::PATIENCE;
use pilothouse_tests::processes::Sidecar;
use serde_json::{Value, json};

use crate::artifacts::{Agent, builder, own_tool, project};
use crate::scripts::say;
use crate::server::Server;

const SUMMARY: &str = "1 file of the workspace is not saved as artifacts: notes/draft.md";

#[tokio::test]
async fn killed_agent_leaves_a_list_of_its_unreported_files() {
    let server = Server::start(1).await;
    let api = server.api();
    let project = project(&api).await;
    let work = server.work_folder();
    let steps = [
        say("Ready."),
        json!({ "waitForMessage": {} }),
        own_tool("r1", "report_artifact", &json!({ "path": "saved.md", "kind": "document" })),
        json!({ "wait": 600_000 }),
    ];
    let agent = Agent::spawn(&server, builder(), &steps).await;
    agent.session.until_said("Ready.").await;
    std::fs::create_dir_all(work.join("notes")).unwrap();
    for path in ["saved.md", "notes/draft.md", ".env"] {
        std::fs::write(work.join(path), "Orders have a teapot.").unwrap();
    }
    agent.session.say("Report it.", "Immediate").await;
    let (failed, text) = agent.result("r1").await;
    assert!(!failed, "{text}");
    server.sidecars().iter().for_each(Sidecar::kill9);

    let is_list = |line: &Value| line["summary"] == SUMMARY;
    let activity = agent.session.until_activity("the list", |lines| lines.iter().any(is_list)).await;
    agent.session.until_status("Failed").await;
    assert_eq!(activity.iter().filter(|line| is_list(line)).count(), 1, "{activity:?}");
    let events = api.all(&format!("/api/agents/sessions/{}/events", agent.session.id)).await;
    let list = events.iter().map(Value::to_string).find(|event| event.contains("unreported_files")).unwrap();
    assert!(list.contains("never_reported") && !list.contains("saved.md"), "{list}");
    let artifacts = api.all("/api/artifacts").await;
    let paths: Vec<_> = artifacts.iter().map(|artifact| artifact["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["saved.md"], "nothing else is uploaded");

    let mentioned = async || {
        let briefing = api.get(&format!("/api/projects/{project}/briefing")).await.expect(200).body;
        briefing.to_string().contains("left files in its workspace").then_some(())
    };
    agent.session.until_within(PATIENCE, "the briefing", mentioned).await;
}
