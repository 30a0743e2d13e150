//! Agents of a project learn of each other's results while they work (S2, "`ContextInjection` timing policy"; decision 89).

use pilothouse_tests::{Api, PATIENCE, Session};
use serde_json::{Value, json};

use crate::scripts::{say, script, turn};
use crate::server::Server;

async fn project(api: &Api) {
    let workstreams = json!([{ "id": "api", "name": "The API" }, { "id": "docs", "name": "Guides" }]);
    api.post("/api/projects", json!({ "name": "Shop", "workstreams": workstreams })).await.expect(201);
}

struct Agent {
    id: String,
    session: Session,
}

impl Agent {
    async fn spawn(server: &Server, brief: Value, script: &Value) -> Self {
        let mut brief = brief;
        brief["adapter"] = json!("script");
        brief["providerConfig"] = json!({ "script": script });
        let body = json!({
            "brief": brief, "objective": "Build the order service", "workingDirectory": server.work_folder(),
            "budgetCapUsd": "5",
        });
        let session = Session::spawn(&server.api(), body).await;
        Self { id: session.agent_id(), session }
    }

    /// The tokens of its one injection.
    async fn injected_tokens(&self, api: &Api) -> u64 {
        let look = async || {
            let view = api.get(&format!("/api/agents/{}", self.id)).await.expect(200).body;
            let used = view.get("contextUse")?;
            assert_eq!(used["injections"], 1, "{used}");
            used["estimatedTokens"].as_u64()
        };
        self.session.until_within(PATIENCE, "the count", look).await
    }

    /// The injections in the conversation.
    async fn injections(&self) -> Vec<String> {
        let messages = self.session.messages().await;
        let injected = messages.iter().filter(|it| it["source"] == "ContextInjection");
        injected.map(|it| it["content"].as_str().unwrap().to_owned()).collect()
    }
}

fn writer(role: &str) -> Value {
    json!({ "role": role, "workstream": "docs", "readableWorkstreams": ["api"] })
}

#[tokio::test]
async fn approved_artifact_reaches_working_and_resting_agents() {
    let server = Server::start(1).await;
    let api = server.api();
    project(&api).await;
    let listens =
        script(&[turn(&[say("Working."), json!({ "waitForMessage": {} }), say("Told: {{message}}")])]);
    let working = Agent::spawn(&server, writer("Writer"), &listens).await;
    working.session.until_said("Working.").await;
    let resting = Agent::spawn(&server, writer("Editor"), &script(&[turn(&[say("Done.")])])).await;
    resting.session.until("idle", |view| view["status"] == "Idle").await;

    let report = json!({ "path": "orders.md", "kind": "document", "text": "Orders have a teapot." });
    let call = json!({ "ownTool": { "id": "r1", "name": "report_artifact", "input": report } });
    let builder = json!({ "role": "Builder", "workstream": "api" });
    let building = Agent::spawn(&server, builder, &script(&[turn(&[call, say("Done.")])])).await;
    building.session.until("idle", |view| view["status"] == "Idle").await;
    let artifacts = api.get("/api/artifacts").await.expect(200).body;
    let artifact = artifacts["items"][0]["id"].as_str().unwrap();
    api.post(&format!("/api/artifacts/{artifact}/approve"), json!({})).await.expect(200);

    working.session.until("told", |view| view["status"] == "Idle").await;
    let injected = working.injections().await;
    assert_eq!(injected.len(), 1, "{injected:?}");
    assert!(
        injected[0].contains("\"orders.md\", version 1, of the workstream api was approved"),
        "{injected:?}"
    );
    let said = working.session.messages().await;
    let reply = format!("Told: {}", injected[0]);
    assert!(said.iter().any(|it| it["source"] == "Agent" && it["content"] == reply), "{said:#?}");
    let view = working.session.view().await;
    assert_eq!(view["metrics"]["turnCount"], 1, "the injection began no turn");
    assert!(working.injected_tokens(&api).await > 20);

    let view = resting.session.view().await;
    assert_eq!((&view["status"], &view["metrics"]["turnCount"]), (&json!("Idle"), &json!(1)));
    assert_eq!(resting.injections().await, Vec::<String>::new());
    let waits = async || {
        let queue = resting.session.queue().await;
        assert_eq!(queue["items"], json!([]), "the messages of the owner");
        queue.get("contextInjection").map(|_| ())
    };
    resting.session.until_within(PATIENCE, "the injection", waits).await;
    resting.session.say("Go on", "Queued").await;
    resting.session.until("its next turn", |view| view["metrics"]["turnCount"] == 2).await;
    let injected = resting.injections().await;
    assert_eq!(injected.len(), 1, "{injected:?}");
    let heard = format!("You said: {}\n\n---\n\nGo on", injected[0]);
    let said = resting.session.messages().await;
    assert!(said.iter().any(|it| it["source"] == "Agent" && it["content"] == heard), "{said:#?}");
    assert!(said.iter().any(|it| it["source"] == "User" && it["content"] == "Go on"), "{said:#?}");
    assert!(resting.injected_tokens(&api).await > 20);
}
