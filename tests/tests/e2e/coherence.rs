//! Coherence issues of agents through real processes (S2, "Coherence Monitoring"; decision 88).

use pilothouse_api::project_stream::{AgentEventContent, ProjectMessageBody};
use pilothouse_client::ProjectWatchEvent;
use pilothouse_tests::PATIENCE;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::artifacts::{Agent, builder, own_tool, project, writer};
use crate::server::Server;

#[tokio::test]
async fn issue_of_two_agents_reaches_the_project_stream() {
    let server = Server::start(1).await;
    let api = server.api();
    let project = project(&api).await;
    let folder = server.work_folder();
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("price.ts"), "price in cents").unwrap();
    let file = json!({ "path": "price.ts", "kind": "code" });
    let building = Agent::spawn(&server, builder(), &[own_tool("b1", "report_artifact", &file)]).await;
    let (failed, first) = building.result("b1").await;
    assert!(!failed, "{first}");
    let first: Value = serde_json::from_str(&first).unwrap();
    let flag = json!({
        "title": "Units differ", "description": "The guide says dollars.", "category": "contradiction",
        "severity": "low", "affectedArtifactIds": [first["artifactId"]],
    });
    let steps = [
        json!({ "waitForMessage": {} }),
        own_tool("w1", "report_artifact", &file),
        own_tool("w2", "flag_coherence", &flag),
    ];
    let writing = Agent::spawn(&server, writer(&["api"]), &steps).await;
    let mut watch = server.client().watch_project(project.parse().unwrap(), None);
    timeout(PATIENCE, watch.next()).await.unwrap().unwrap();
    writing.session.say("Go on", "Immediate").await;
    let (failed, text) = writing.result("w1").await;
    assert!(!failed, "{text}");
    let (failed, flagged) = writing.result("w2").await;
    assert!(!failed, "{flagged}");

    let listed =
        async || api.get("/api/coherence").await.expect(200).body["items"].as_array().unwrap().clone();
    let issues = listed().await;
    let titles: Vec<_> = issues.iter().map(|issue| issue["title"].as_str().unwrap().to_owned()).collect();
    // Both files have the same content, too, because both agents work in one folder.
    assert_eq!(issues.len(), 3, "{titles:?}");
    assert!(issues.iter().any(|issue| issue["source"]["check"] == "file_conflict"), "{titles:?}");
    let of_agent = issues.iter().find(|issue| issue["title"] == flag["title"]).unwrap();
    for (field, value) in flag.as_object().unwrap() {
        assert_eq!(&of_agent[field], value, "{field}: {of_agent}");
    }
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let next = timeout(PATIENCE, watch.next()).await.unwrap_or_else(|_| panic!("only {seen:?}"));
        if let ProjectWatchEvent::Message(message) = next.unwrap()
            && let ProjectMessageBody::Event(event) = &message.body
            && let AgentEventContent::Coherence { .. } = event.envelope.event.content
        {
            seen.push(serde_json::to_value(&event.envelope.event).unwrap());
        }
    }
    for issue in &issues {
        let fields =
            ["title", "description", "category", "severity", "affectedWorkstreams", "affectedArtifactIds"];
        let mut expected = json!({ "agentId": writing.id, "type": "coherence", "issueId": issue["id"] });
        for field in fields {
            expected[field] = issue[field].clone();
        }
        assert!(seen.contains(&expected), "{expected} is not among {seen:?}");
    }

    let flagged: Value = serde_json::from_str(&flagged).unwrap();
    let confirm = format!("/api/coherence/{}/confirm", flagged["issueId"].as_str().unwrap());
    api.post(&confirm, json!({})).await.expect(200);
    let trust = format!("/api/trust/{}", writing.id);
    let moved = async || {
        let view = api.get(&trust).await.expect(200).body;
        let outcomes = view["history"]["items"].as_array().unwrap().clone();
        outcomes.iter().any(|it| it["outcome"] == "coherence_issue_confirmed").then_some(())
    };
    writing.session.until_within(PATIENCE, "the trust", moved).await;
    let score = api.get(&format!("/api/projects/{project}/coherence")).await.expect(200).body;
    assert_eq!(score["score"], 100 - 8 - 1 - 1, "{score}");
}
