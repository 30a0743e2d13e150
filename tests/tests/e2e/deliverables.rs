//! Deliverables of an agent (S4): their read model, and sessions that continue until all are passed or blocked.

use pilothouse_tests::Session;
use serde_json::{Value, json};

use crate::scripts::{say, script, turn};
use crate::server::{Server, started, work};

fn deliverable(id: &str, status: &str) -> Value {
    json!({ "id": id, "description": format!("Deliver {id}"), "acceptanceCriteria": ["It works"], "status": status })
}

fn reports(deliverables: &[Value]) -> Value {
    json!({ "raw": { "type": "deliverables", "deliverables": deliverables } })
}

#[tokio::test]
async fn deliverables_are_listed_and_counted() {
    let server = Server::start(1).await;
    let first = [deliverable("DL-001", "pending"), deliverable("DL-002", "pending")];
    let second =
        [deliverable("DL-001", "passed"), deliverable("DL-002", "blocked"), deliverable("DL-003", "pending")];
    let wait = json!({ "waitForMessage": {} });
    let session =
        started(&server, &script(&[turn(&[reports(&first), wait, reports(&second), say("Done.")])])).await;
    let view = session.until("deliverables", |v| v["deliverables"] != Value::Null).await;
    assert_eq!(view["deliverables"], json!({ "pending": 2, "passed": 0, "blocked": 0 }));
    let shown = session.get("/deliverables").await.expect(200).body;
    assert_eq!((&shown["pending"], &shown["deliverables"]), (&json!(2), &json!(first)));
    session.say("Go on.", "Immediate").await;
    let view = session.until_status("Idle").await;
    assert_eq!(view["deliverables"], json!({ "pending": 1, "passed": 1, "blocked": 1 }));
    let shown = session.get("/deliverables").await.expect(200).body;
    assert_eq!(shown["deliverables"], json!(second));
    let activity = session.activity().await;
    let line = "1 of 3 deliverables are passed, 1 are blocked";
    assert!(activity.iter().any(|l| l["summary"] == line), "{activity:#?}");
}

/// A session that requires its deliverables continues until none in the status file is pending.
#[tokio::test]
async fn session_continues_until_its_deliverables_are_complete() {
    let server = Server::start(1).await;
    let folder = server.work_folder().join("deliver");
    std::fs::create_dir_all(folder.join(".pilothouse")).unwrap();
    let write = |deliverables: &[Value]| {
        let status =
            json!({ "createdAt": "2026-01-01", "updatedAt": "2026-01-01", "deliverables": deliverables });
        std::fs::write(folder.join(".pilothouse/status.json"), status.to_string()).unwrap();
    };
    let mut plays = script(&[turn(&[say("Begun.")])]);
    plays["onMessage"] = json!([say("Told: {{message}}"), { "waitForMessage": {} }]);
    let mut body = work(&server, &plays);
    body["workingDirectory"] = json!(folder);
    body["autoContinueConfig"] = json!({ "validationCriteria": [{ "type": "DeliverablesComplete" }] });
    let session = Session::start(&server.api(), body.clone()).await;

    let goes_on = async |why: &str| {
        let text = format!("Told: Validation failed: DeliverablesComplete: {why}. Continue working.");
        session.until_said(&text).await;
    };
    goes_on("there are no deliverables yet; create them").await;
    write(&[deliverable("DL-001", "passed"), deliverable("DL-002", "pending")]);
    session.say("Well?", "Immediate").await;
    goes_on("1 of 2 deliverables are pending: DL-002").await;
    write(&[deliverable("DL-001", "passed"), deliverable("DL-002", "blocked")]);
    session.say("Well?", "Immediate").await;
    let view = session.until_status("Idle").await;
    assert_eq!(view["autoContinueConfig"]["currentContinuationCount"], 2);

    body["autoContinueConfig"] =
        json!({ "validationCriteria": [{ "type": "DeliverablesComplete", "customCommand": "true" }] });
    let refused = server.api().post("/api/agents/sessions", body).await.refused(422, "validation-failed");
    assert_eq!(refused.violated(), ["autoContinueConfig"]);
}
