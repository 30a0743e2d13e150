//! Results that have to match the schema of a brief (S2 `AgentBrief.outputSchema`; decision 83).

use pilothouse_tests::Session;
use serde_json::{Value, json};

use crate::projects::project;
use crate::scripts::{say, script, turn, works_until_message};
use crate::server::Server;

async fn spawned(server: &Server, plays: &Value) -> Session {
    let shop = project(&server.api(), "Shop").await;
    let schema =
        json!({ "type": "object", "required": ["total"], "properties": { "total": { "type": "integer" } } });
    let body = json!({
        "projectId": shop["id"],
        "brief": { "role": "Counter", "workstream": "api", "adapter": "script",
            "providerConfig": { "script": plays }, "outputSchema": schema },
        "objective": "Count the tea",
        "workingDirectory": server.work_folder(),
        "budgetCapUsd": "5",
    });
    Session::spawn(&server.api(), body).await
}

fn with_result(result: &Value) -> Value {
    json!({ "output": { "outputLineCount": 1, "filesChanged": 0, "testsAdded": 0, "allTestsPassing": true, "result": result } })
}

#[tokio::test]
async fn agent_that_never_corrects_its_result_is_reviewed_with_violations() {
    let server = Server::start(1).await;
    let wrong = [say("Counted."), with_result(&json!({ "total": "seven" }))];
    let mut plays = script(&[turn(&wrong)]);
    plays["onMessage"] = json!(wrong);
    let session = spawned(&server, &plays).await;
    let view = session.until("output", |view| view["hasPendingReview"] == true).await;
    assert_eq!(view["metrics"]["turnCount"], 3, "two corrections");
    let violations = json!([{ "path": "/total", "message": "must be of type integer" }]);
    assert_eq!(view["output"]["violations"], violations);
    let found = session.api.all(&format!("/api/decisions?session={}", session.id)).await;
    assert_eq!(found[0]["output"]["violations"], violations, "{found:#?}");
}

#[tokio::test]
async fn submitted_result_is_returned_until_it_matches() {
    let server = Server::start(1).await;
    let session = spawned(&server, &works_until_message()).await;
    session.until_said("Working.").await;
    let path = format!("/api/agent/sessions/{}/output", session.id);
    let submit = |result: Value| json!({ "outputLineCount": 0, "filesChanged": 0, "testsAdded": 0, "allTestsPassing": true, "result": result });
    let agent = server.api_with(Some(session.api_key().to_owned()));
    let returned = agent.post(&path, submit(json!({}))).await.expect(202).body;
    assert_eq!((&returned["accepted"], &returned["correctionsLeft"]), (&json!(false), &json!(1)));
    assert_eq!(returned["violations"], json!([{ "path": "/total", "message": "is required" }]));
    let accepted = agent.post(&path, submit(json!({ "total": 7 }))).await.expect(202).body;
    assert_eq!(accepted, json!({ "status": "Running", "accepted": true }));
    session.say("Done?", "Immediate").await;
    let view = session.until("output", |view| view["hasPendingReview"] == true).await;
    assert_eq!(view["output"]["result"], json!({ "total": 7 }));
}

#[tokio::test]
async fn schema_that_cannot_be_enforced_is_refused_with_its_paths() {
    let server = Server::start(1).await;
    let shop = project(&server.api(), "Shop").await;
    let schema = json!({ "type": "object", "properties": { "total": { "multipleOf": 2 } }, "minItems": "1" });
    let body = json!({
        "projectId": shop["id"],
        "brief": { "role": "Counter", "workstream": "api", "adapter": "script", "outputSchema": schema },
        "objective": "Count the tea", "workingDirectory": server.work_folder(), "budgetCapUsd": "5",
    });
    let refused = server.api().post("/api/agents/spawn", body).await.refused(422, "validation-failed");
    let expected = ["brief.outputSchema.minItems", "brief.outputSchema.properties.total.multipleOf"];
    assert_eq!(refused.violated(), expected);
}
