//! Trust of agents and ticks of projects (S2, "Trust score update rules", "Tick Service"; decision 76).

use pilothouse_tests::{Api, PATIENCE, Session};
use serde_json::{Value, json};

use crate::scripts::{say, script, turn, with_output};
use crate::server::Server;

/// A project whose ticks a test advances, with this trust configuration.
async fn project(api: &Api, trust: Value) -> Value {
    let body = json!({
        "name": "Shop", "workstreams": [{ "id": "api", "name": "The HTTP API" }], "trust": trust,
        "tickConfig": { "mode": "manual" },
    });
    api.post("/api/projects", body).await.expect(201).body
}

/// The trust of an agent, and its session.
struct Trusted {
    agent: String,
    session: Session,
}

impl Trusted {
    /// The agent of the only project, which plays `plays`.
    async fn spawn(server: &Server, plays: &Value) -> Self {
        let body = json!({
            "brief": {
                "role": "Builder", "workstream": "api", "adapter": "script", "providerConfig": { "script": plays },
            },
            "objective": "Build it",
            "workingDirectory": server.work_folder(),
            "budgetCapUsd": "5",
        });
        let session = Session::spawn(&server.api(), body).await;
        Self { agent: session.agent_id(), session }
    }

    fn path(&self) -> String {
        format!("/api/trust/{}", self.agent)
    }

    async fn view(&self) -> Value {
        self.session.api.get(&self.path()).await.expect(200).body
    }

    /// Waits until the history has these outcomes, oldest first.
    async fn until_outcomes(&self, expected: &[&str]) -> Value {
        let look = async || {
            let view = self.view().await;
            let items = view["history"]["items"].as_array().unwrap();
            let outcomes: Vec<_> = items.iter().rev().map(|it| it["outcome"].as_str().unwrap()).collect();
            (outcomes == expected).then_some(view)
        };
        self.session.until_within(PATIENCE, &expected.join(", "), look).await
    }

    /// Decides on the only decision that waits.
    async fn resolve(&self, request: &str, body: Value) {
        let look = async || {
            let waiting = self.session.api.all("/api/decisions").await;
            let found = waiting.iter().find(|it| request.is_empty() || it["requestId"] == request)?;
            Some(found["id"].as_str().unwrap().to_owned())
        };
        let id = self.session.until_within(PATIENCE, request, look).await;
        let reply = self.session.api.post(&format!("/api/decisions/{id}/resolve"), body).await;
        assert!((200..300).contains(&reply.status), "{:#}", reply.body);
    }
}

/// Asks whether a tool call is permitted. The question is sent twice.
fn permission(request: &str) -> [Value; 2] {
    let asked = json!({ "type": "question_asked", "requestId": request,
        "questions": [{ "question": "May the agent use Bash?", "options": [{ "label": "Allow" }, { "label": "Deny" }] }],
        "approval": { "toolName": "Bash", "input": { "command": "rm x" }, "allow": "Allow", "deny": "Deny" } });
    [json!({ "duplicate": { "raw": asked } }), json!({ "waitForAnswer": request })]
}

#[tokio::test]
async fn resolutions_and_brakes_move_the_score_of_an_agent_once() {
    let mut server = Server::start(1).await;
    let api = server.api();
    let shop = project(&api, json!({})).await;
    let [first, second] = [permission("t1"), permission("t2")];
    let steps = [&[say("Working.")], &first[..], &second[..], &[json!({ "wait": 600_000 })]].concat();
    let trusted = Trusted::spawn(&server, &script(&[turn(&steps)])).await;
    assert_eq!(trusted.view().await["exactScore"], 50);

    trusted.resolve("t1", json!({ "resolutionType": "approve" })).await;
    let approved = trusted.until_outcomes(&["human_approves_tool_call"]).await;
    let severity = &approved["history"]["items"][0]["action"]["severity"];
    assert_eq!((&approved["exactScore"], severity), (&json!(51.5), &json!("high")));
    trusted.resolve("t2", json!({ "resolutionType": "reject" })).await;
    let both = ["human_approves_tool_call", "human_rejects_tool_call"];
    assert_eq!(trusted.until_outcomes(&both).await["exactScore"], 48.5);

    let body = json!({ "scope": { "type": "all" }, "reason": "It deletes the wrong files" });
    api.post("/api/brake", body).await.expect(202);
    let all = [&both[..], &["human_overrides_via_brake"]].concat();
    assert_eq!(trusted.until_outcomes(&all).await["exactScore"], 45.5);
    // The relay may send entries again after a crash.
    server.kill9();
    server.restart().await;
    trusted.session.until("a pause", |view| view["status"] == "Paused").await;
    assert_eq!(trusted.until_outcomes(&all).await["exactScore"], 45.5);

    let advanced = api.post("/api/tick/advance", json!({ "ticks": 200 })).await.expect(200).body;
    assert_eq!((&advanced["currentTick"], &advanced["projectId"]), (&json!(200), &shop["id"]));
    let decayed = trusted.view().await;
    assert_eq!((&decayed["exactScore"], &decayed["tick"]), (&json!(47.5), &json!(200)));
    let simulate = format!("{}/simulate", trusted.path());
    let simulated = api.post(&simulate, json!({ "name": "permissive" })).await.expect(200).body;
    // 70, then 1.25 × 1.5, -2 × 0.5 × 1.5 and -3 × 0.5; then 200 ticks of 0.005.
    assert_eq!((&simulated["outcomeCount"], &simulated["finalScore"]), (&json!(3), &json!(67.875)));
}

#[tokio::test]
async fn approved_output_completes_the_objective_and_stops_the_clock() {
    let server = Server::start(1).await;
    let api = server.api();
    let shop = project(&api, json!({ "name": "permissive" })).await;
    let trusted = Trusted::spawn(&server, &with_output()).await;
    let active = async |count: usize| {
        let look = async || {
            let tick = api.get("/api/tick").await.expect(200).body;
            (tick["activeAgents"].as_array().unwrap().len() == count).then_some(tick)
        };
        trusted.session.until_within(PATIENCE, "the active agents", look).await
    };
    trusted.session.until_status("Idle").await;
    assert_eq!(active(1).await["mode"], "manual", "the review waits for a person");
    api.post("/api/tick/advance", json!({})).await.expect(200);
    trusted.resolve("", json!({ "resolutionType": "approve" })).await;
    let done = trusted.until_outcomes(&["artifact_approved", "task_completed_success"]).await;
    assert_eq!((&done["score"], &done["exactScore"]), (&json!(72), &json!(72.495)));
    active(0).await;

    let project = format!("/api/projects/{}", shop["id"].as_str().unwrap());
    api.patch(&project, json!({ "tickConfig": {} })).await.expect(200);
    api.post("/api/tick/advance", json!({})).await.refused(409, "ticks-not-manual");
}

#[tokio::test]
async fn agents_do_not_see_their_trust() {
    let server = Server::start(1).await;
    let trust = json!({ "config": { "initialScore": 61.317 } });
    project(&server.api(), trust).await;
    let plays = script(&[turn(&[say("{{message}} {{objective}} {{configuration}}")])]);
    let trusted = Trusted::spawn(&server, &plays).await;
    trusted.session.until_status("Idle").await;
    assert_eq!(trusted.view().await["exactScore"], 61.317);
    let seen = trusted.session.said().await.join("\n");
    assert!(seen.contains("Builder"), "{seen}");
    for secret in ["61.317", "61317", "trust", "Trust"] {
        assert!(!seen.contains(secret), "{secret} is in {seen}");
    }
    let of_agent = server.api_with(Some(trusted.session.api_key().to_owned()));
    for path in [trusted.path(), "/api/tick".to_owned()] {
        assert_eq!(of_agent.get(&path).await.status, 401, "{path}");
    }
}
