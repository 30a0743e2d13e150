//! Artifacts and knowledge of a project through real processes (S2, "Knowledge Store"; decision 84).

use std::time::Duration;

use pilothouse_tests::{Api, PATIENCE, Session};
use pilothouse_wire::keys::sha256_hex;
use reqwest::Method;
use serde_json::{Value, json};

use crate::leaks::asked;
use crate::scripts::{say, script, turn};
use crate::server::Server;

pub(crate) async fn project(api: &Api) -> String {
    let workstreams = json!([{ "id": "api", "name": "The API" }, { "id": "docs", "name": "Guides" }]);
    let body = json!({ "name": "Shop", "workstreams": workstreams, "tickConfig": { "mode": "manual" } });
    let project = api.post("/api/projects", body).await.expect(201).body;
    project["id"].as_str().unwrap().to_owned()
}

pub(crate) fn own_tool(id: &str, name: &str, input: &Value) -> Value {
    json!({ "ownTool": { "id": id, "name": name, "input": input } })
}

pub(crate) struct Agent {
    pub(crate) id: String,
    pub(crate) session: Session,
}

impl Agent {
    /// An agent of the only project that plays `steps` in a turn.
    pub(crate) async fn spawn(server: &Server, brief: Value, steps: &[Value]) -> Self {
        let mut brief = brief;
        let plays = script(&[turn(&[steps, &[say("Done.")]].concat())]);
        brief["adapter"] = json!("script");
        brief["providerConfig"] = json!({ "script": plays });
        let body = json!({
            "brief": brief, "objective": "Build the order service", "workingDirectory": server.work_folder(),
            "budgetCapUsd": "5",
        });
        let session = Session::spawn(&server.api(), body).await;
        Self { id: session.agent_id(), session }
    }

    /// The result of an own tool, and whether it failed.
    pub(crate) async fn result(&self, call: &str) -> (bool, String) {
        let look = async || {
            let calls = self.session.tool_calls().await;
            let found = calls.into_iter().find(|it| it["id"] == call)?;
            let content = found["result"]["content"].as_str()?.to_owned();
            Some((found["result"]["isError"] == true, content))
        };
        self.session.until_within(PATIENCE, call, look).await
    }
}

pub(crate) fn builder() -> Value {
    json!({ "role": "Builder", "workstream": "api" })
}

pub(crate) fn writer(reads: &[&str]) -> Value {
    json!({ "role": "Writer", "workstream": "docs", "readableWorkstreams": reads })
}

#[tokio::test]
async fn artifacts_pass_between_agents_within_their_scope() {
    let server = Server::start(1).await;
    let api = server.api();
    let project = project(&api).await;
    let report = |text: &str| json!({ "path": "orders.md", "kind": "document", "text": text });
    let outside = json!({ "path": "x", "kind": "code", "text": "x", "artifactId": project });
    let steps = [
        own_tool("r1", "report_artifact", &report("Orders have a teapot.")),
        own_tool("r2", "report_artifact", &report("Orders have a teapot.")),
        own_tool("r3", "report_artifact", &report("Orders have a kettle.")),
        own_tool("r4", "report_artifact", &outside),
    ];
    let building = Agent::spawn(&server, builder(), &steps).await;
    let (failed, first) = building.result("r1").await;
    assert!(!failed, "{first}");
    let first: Value = serde_json::from_str(&first).unwrap();
    let repeated: Value = serde_json::from_str(&building.result("r2").await.1).unwrap();
    assert_eq!((&repeated["version"], &repeated["artifactId"]), (&json!(1), &first["artifactId"]));
    let second: Value = serde_json::from_str(&building.result("r3").await.1).unwrap();
    assert_eq!(second["version"], 2);
    let (failed, text) = building.result("r4").await;
    assert!(failed && text.contains("no such artifact"), "{text}");
    let id = first["artifactId"].as_str().unwrap();
    let view = api.get(&format!("/api/artifacts/{id}")).await.expect(200).body;
    assert_eq!(view["latest"]["author"]["toolCallId"], "r3");

    let found = async || {
        let path = format!("/api/projects/{project}/search?query=kettle");
        let items = api.get(&path).await.expect(200).body["items"].clone();
        (items.as_array().unwrap().len() == 1).then_some(())
    };
    building.session.until_within(PATIENCE, "the index", found).await;
    let reads = [
        own_tool("a1", "read_artifact", &json!({ "artifactId": id })),
        own_tool("a2", "search_knowledge", &json!({ "query": "kettle" })),
        own_tool(
            "a3",
            "report_artifact",
            &json!({ "artifactId": id, "path": "x", "kind": "document",
            "expectedVersion": 2, "text": "Mine" }),
        ),
    ];
    let stranger = Agent::spawn(&server, writer(&[]), &reads).await;
    let (failed, text) = stranger.result("a1").await;
    assert!(failed && text.contains("not readable for the agent") && !text.contains("kettle"), "{text}");
    let nothing: Value = serde_json::from_str(&stranger.result("a2").await.1).unwrap();
    assert_eq!(nothing["items"], json!([]));
    let (failed, text) = stranger.result("a3").await;
    assert!(failed && text.contains("is not the agent's own"), "{text}");

    let reader = Agent::spawn(&server, writer(&["api"]), &reads).await;
    let (failed, text) = reader.result("a1").await;
    assert!(!failed, "{text}");
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["text"], "Orders have a kettle.");
    let found: Value = serde_json::from_str(&reader.result("a2").await.1).unwrap();
    assert_eq!(found["items"][0]["artifactId"], id);
    let (failed, text) = reader.result("a3").await;
    assert!(failed && text.contains("is not the agent's own"), "{text}");

    api.post(&format!("/api/artifacts/{id}/approve"), json!({ "version": 2 })).await.expect(200);
    let trust = format!("/api/trust/{}", building.id);
    let moved = async || {
        let view = api.get(&trust).await.expect(200).body;
        let outcomes = view["history"]["items"].as_array().unwrap().clone();
        outcomes.iter().any(|it| it["outcome"] == "artifact_approved").then_some(())
    };
    building.session.until_within(PATIENCE, "the trust", moved).await;
    let log = api.all(&format!("/api/projects/{project}/decision-log")).await;
    let uses: Vec<_> = log.iter().filter(|it| it["type"] == "knowledge").collect();
    let refused = uses.iter().filter(|it| it["allowed"] == false).count();
    assert_eq!((uses.len(), refused), (6, 3), "{uses:#?}");
    let snapshot = format!("/api/projects/{project}/snapshot?agentId={}", reader.id);
    let snapshot = api.get(&snapshot).await.expect(200).body;
    assert_eq!(snapshot["artifactIndex"][0]["status"], "approved", "{snapshot:#}");
}

#[tokio::test]
async fn agents_read_decisions_of_readable_workstreams_only() {
    let server = Server::start(1).await;
    project(&server.api()).await;
    let question = json!({ "question": { "id": "q1", "questions": [{ "question": "Which store?" }] } });
    let asking = Agent::spawn(&server, builder(), &[question]).await;
    let decision = asked(&asking.session, "Which store?").await;
    let detail = [own_tool("d1", "decision_detail", &json!({ "decisionId": decision["id"] }))];
    let reader = Agent::spawn(&server, writer(&["api"]), &detail).await;
    let (failed, text) = reader.result("d1").await;
    assert!(!failed && text.contains("Which store?"), "{text}");
    let stranger = Agent::spawn(&server, writer(&[]), &detail).await;
    let (failed, text) = stranger.result("d1").await;
    assert!(failed && text.contains("not readable for the agent"), "{text}");
    assert!(!text.contains("Which store?"), "{text}");
}

#[tokio::test]
async fn people_upload_read_compare_and_review() {
    let server = Server::start(1).await;
    let api = server.api();
    project(&api).await;
    let upload = |text: &str, expected: u32| {
        json!({ "path": "guide.md", "kind": "document", "workstream": "docs", "mimeType": "text/markdown",
            "expectedVersion": expected, "text": text })
    };
    let first = api.post("/api/artifacts", upload("# Tea\n", 0)).await.expect(201).body;
    api.post("/api/artifacts", upload("# Tea\n", 0)).await.expect(200);
    api.post("/api/artifacts", upload("# Coffee\n", 1)).await.expect(201);
    let stale = api.post("/api/artifacts", upload("# Milk\n", 1)).await;
    assert_eq!(stale.refused(409, "artifact-version-conflict").status, 409);
    let path = format!("/api/artifacts/{}", first["artifactId"].as_str().unwrap());
    let text = async |rest: &str| api.get(&format!("{path}{rest}")).await.expect(200).text;
    assert_eq!(text("/content").await, "# Coffee\n");
    assert_eq!(text("/versions/1/content").await, "# Tea\n");
    let diff = api.get(&format!("{path}/diff")).await.expect(200).body;
    assert!(diff["unified"].as_str().unwrap().contains("-# Tea\n+# Coffee\n"), "{diff}");
    assert_eq!((&diff["from"], &diff["to"]), (&json!(1), &json!(2)));
    let back = api.get(&format!("{path}/diff?from=2&to=1")).await.expect(200).body;
    assert!(back["unified"].as_str().unwrap().contains("-# Coffee\n+# Tea\n"), "{back}");
    api.get(&format!("{path}/diff?to=3")).await.refused(404, "not-found");
    api.get(&format!("{path}/versions/3/content")).await.refused(404, "not-found");

    let content = "x".repeat(5_000_000).into_bytes();
    let named = json!({ "contentHash": sha256_hex(&content), "sizeBytes": content.len() });
    let link = api.post("/api/artifacts/uploads", named.clone()).await.expect(200).body;
    let mut other = content.clone();
    other[0] ^= 1;
    assert_eq!(put(&api, &link, other).await / 100, 4, "another content of the same size");
    assert_eq!(put(&api, &link, content).await / 100, 2);
    let mut complete = json!({ "path": "big.log", "kind": "other", "workstream": "docs" });
    complete.as_object_mut().unwrap().extend(named.as_object().unwrap().clone());
    let stored = api.post("/api/artifacts", complete).await.expect(201).body;
    assert_eq!((&stored["version"], &stored["sizeBytes"]), (&json!(1), &json!(5_000_000)));

    let rejected = api.post(&format!("{path}/reject"), json!({ "reason": "Tea, please" })).await.expect(200);
    assert_eq!((&rejected.body["state"], &rejected.body["version"]), (&json!("rejected"), &json!(2)));
    api.post(&format!("{path}/approve"), json!({})).await.refused(409, "artifact-reviewed");
}

/// Sends a content to the address of an upload, and returns the status.
async fn put(api: &Api, link: &Value, content: Vec<u8>) -> u16 {
    let url = link["url"].as_str().unwrap();
    if url.starts_with('/') {
        return api.send(Method::PUT, url, &[], Some(content)).await.status;
    }
    let headers = link["headers"].as_object().unwrap();
    let request = reqwest::Client::new().put(url).timeout(Duration::from_secs(30)).body(content);
    let request =
        headers.iter().fold(request, |request, (name, value)| request.header(name, value.as_str().unwrap()));
    request.send().await.unwrap().status().as_u16()
}
