//! Projects and their agents (S2; decision 71).

use pilothouse_tests::{Api, PATIENCE, Session};
use reqwest::Method;
use serde_json::{Value, json};

use crate::chains::{continuation, exhausts};
use crate::scripts::{endless, say, script, short, turn, with_output};
use crate::server::Server;

const PROJECTS: &str = "/api/projects";
const NOBODY: &str = "01900000-0000-7000-8000-000000000000";

pub(crate) async fn project(api: &Api, name: &str) -> Value {
    let body = json!({
        "name": name,
        "goals": ["Sell tea"],
        "constraints": ["Never log card numbers"],
        "workstreams": [{ "id": "api", "name": "The HTTP API" }, { "id": "docs", "name": "Guides" }],
    });
    api.post(PROJECTS, body).await.expect(201).body
}

/// The request for an agent that plays `plays`.
fn agent(server: &Server, project: &Value, role: &str, plays: &Value) -> Value {
    json!({
        "projectId": project["id"],
        "brief": {
            "role": role,
            "workstream": "api",
            "constraints": ["Write tests"],
            "adapter": "script",
            "providerConfig": { "script": plays },
        },
        "objective": "Build it",
        "workingDirectory": server.work_folder(),
        "budgetCapUsd": "5",
    })
}

pub(crate) async fn spawned(
    server: &Server,
    project: &Value,
    role: &str,
    plays: &Value,
) -> (String, Session) {
    let session = Session::spawn(&server.api(), agent(server, project, role, plays)).await;
    (session.agent_id(), session)
}

async fn until_agent(session: &Session, agent: &str, status: &str) -> Value {
    let look = async || {
        let view = session.api.get(&format!("/api/agents/{agent}")).await.expect(200).body;
        (view["status"] == status).then_some(view)
    };
    session.until_within(PATIENCE, status, look).await
}

#[tokio::test]
async fn agents_of_a_project_follow_their_sessions() {
    let server = Server::start(1).await;
    let api = server.api();
    let shop = project(&api, "Shop").await;
    let (builder, working) = spawned(&server, &shop, "Builder", &endless()).await;
    let (writer, reviewed) = spawned(&server, &shop, "Writer", &with_output()).await;
    let (_, done) = spawned(&server, &shop, "Tester", &short()).await;
    working.until_said("Working.").await;
    until_agent(&reviewed, &writer, "waiting_on_human").await;
    done.until_status("Idle").await;

    let listed = api.all(&format!("/api/agents?projectId={}", shop["id"].as_str().unwrap())).await;
    let statuses: Vec<_> = listed
        .iter()
        .map(|it| (it["brief"]["role"].as_str().unwrap(), it["status"].as_str().unwrap()))
        .collect();
    assert_eq!(statuses, [("Builder", "running"), ("Writer", "waiting_on_human"), ("Tester", "completed")]);
    let view = working.view().await;
    assert_eq!(view["project"], json!({ "projectId": shop["id"], "agentId": builder, "workstream": "api" }));

    let path = |action: &str| format!("/api/agents/{builder}{action}");
    let pausing = api.post(&path("/pause"), json!({})).await.expect(202).body;
    assert_eq!(pausing["sessionStatus"], "Pausing");
    until_agent(&working, &builder, "paused").await;
    api.post(&path("/resume"), json!({})).await.expect(202);
    until_agent(&working, &builder, "running").await;
    working.until_status("Running").await;
    api.post(&path("/kill"), json!({})).await.expect(202);
    until_agent(&working, &builder, "error").await;
    api.post(&path("/kill"), json!({})).await.refused(409, "invalid-transition");
}

#[tokio::test]
async fn kill_all_ends_every_active_agent() {
    let server = Server::start(1).await;
    let api = server.api();
    let shop = project(&api, "Shop").await;
    let (_, first) = spawned(&server, &shop, "First", &endless()).await;
    let (_, second) = spawned(&server, &shop, "Second", &endless()).await;
    let (completed, idle) = spawned(&server, &shop, "Third", &short()).await;
    let outside = Session::start(&api, crate::server::work(&server, &endless())).await;
    until_agent(&idle, &completed, "completed").await;
    for session in [&first, &second, &outside] {
        session.until_said("Working.").await;
    }
    let kill = format!("{PROJECTS}/{}/kill", shop["id"].as_str().unwrap());
    let killed = api.post(&kill, json!({})).await.expect(200).body;
    assert_eq!(killed["agents"].as_array().unwrap().len(), 2);
    first.until_status("Cancelled").await;
    second.until_status("Cancelled").await;
    assert_eq!(api.post(&kill, json!({})).await.expect(200).body["agents"], json!([]));
    assert_eq!(outside.view().await["status"], "Running", "other sessions continue");
    assert_eq!(idle.view().await["status"], "Idle", "a completed agent keeps its session");
}

/// Reports its configuration, first and after each message.
fn reporting() -> Value {
    let mut plays = script(&[turn(&[say("{{configuration}}")])]);
    plays["onMessage"] = json!([say("{{configuration}}")]);
    plays
}

#[tokio::test]
async fn brief_reaches_the_agent_and_its_changes_with_a_reload() {
    let server = Server::start(1).await;
    let api = server.api();
    let shop = project(&api, "Shop").await;
    let (agent_id, session) = spawned(&server, &shop, "Builder", &reporting()).await;
    session.until_status("Idle").await;
    let first = session.said().await.join("\n");
    for expected in ["Builder", "Sell tea", "Never log card numbers", "Write tests", "The HTTP API"] {
        assert!(first.contains(expected), "{expected} is missing in {first}");
    }

    let mut brief = agent(&server, &shop, "Builder", &reporting())["brief"].clone();
    brief["description"] = json!("Also write the changelog.");
    let tool = json!({ "name": "lookup", "description": "Looks up an order", "inputSchema": "{}" });
    brief["mcpServers"] = json!([{ "uri": "https://tools.example.com/mcp", "tools": [tool] }]);
    let updated = api.patch(&format!("/api/agents/{agent_id}/brief"), brief.clone()).await.expect(200).body;
    assert_eq!(updated["briefVersion"], 2);
    let health = format!("/api/agents/{agent_id}/health");
    assert_eq!(api.get(&health).await.expect(200).body["briefSync"], "pending");
    session.post("/reload", json!({})).await.expect(202);
    session.until("reloaded", |it| it["reloading"] == false).await;
    session.say("And now?", "Immediate").await;
    session.until_reported(&["Also write the changelog.", "lookup"]).await;
    assert_eq!(api.get(&health).await.expect(200).body["briefSync"], "synced");
    brief["workstream"] = json!("docs");
    let moved = api.patch(&format!("/api/agents/{agent_id}/brief"), brief).await.expect(422);
    assert_eq!(moved.violated(), ["workstream"]);
}

#[tokio::test]
async fn continuation_belongs_to_the_same_agent() {
    let server = Server::start(1).await;
    let api = server.api();
    let shop = project(&api, "Shop").await;
    let plays = json!({
        "steps": [exhausts("Part one")],
        "continuations": [[turn(&[say("{{configuration}}")])]],
    });
    let (builder, first) = spawned(&server, &shop, "Builder", &plays).await;
    let second = continuation(&first).await;
    let view = second.until_status("Idle").await;
    assert_eq!(view["project"], first.view().await["project"]);
    assert!(second.said().await.join("\n").contains("Never log card numbers"), "the brief is passed on");
    let agent = api.get(&format!("/api/agents/{builder}")).await.expect(200).body;
    assert_eq!((&agent["sessionId"], &agent["sessionCount"]), (&json!(second.id), &json!(2)));
    assert_eq!(agent["status"], "completed");
}

#[tokio::test]
async fn repeated_spawn_makes_one_agent() {
    let server = Server::start(1).await;
    let api = server.api();
    let shop = project(&api, "Shop").await;
    let body = agent(&server, &shop, "Builder", &short()).to_string().into_bytes();
    let send = || {
        let key = [("Idempotency-Key", "one")];
        let (api, body) = (&api, body.clone());
        async move { api.send(Method::POST, "/api/agents/spawn", &key, Some(body)).await.expect(201).body }
    };
    let (first, again) = tokio::join!(send(), send());
    assert_eq!(first, again, "the key of the agent is the same, too");
    let path = format!("/api/agents?projectId={}", shop["id"].as_str().unwrap());
    assert_eq!(api.all(&path).await.len(), 1);
    assert_eq!(api.all("/api/agents/sessions").await.len(), 1);
}

#[tokio::test]
async fn only_project_of_an_owner_need_not_be_named() {
    let server = Server::start(1).await;
    let api = server.api();
    assert_eq!(api.get("/api/agents").await.expect(422).violated(), ["projectId"]);
    let shop = project(&api, "Shop").await;
    let mut body = agent(&server, &shop, "Builder", &short());
    body.as_object_mut().unwrap().remove("projectId");
    api.post("/api/agents/spawn", body.clone()).await.expect(201);
    assert_eq!(api.all("/api/agents").await.len(), 1);
    project(&api, "Second").await;
    assert_eq!(api.post("/api/agents/spawn", body).await.expect(422).violated(), ["projectId"]);
}

#[tokio::test]
async fn archived_projects_start_no_agents() {
    let server = Server::start(1).await;
    let api = server.api();
    let shop = project(&api, "Shop").await;
    let path = |action: &str| format!("{PROJECTS}/{}{action}", shop["id"].as_str().unwrap());
    api.post(&path("/archive"), json!({})).await.expect(200);
    let spawn = agent(&server, &shop, "Builder", &short());
    api.post("/api/agents/spawn", spawn.clone()).await.refused(409, "project-archived");
    api.patch(&path(""), json!({ "goals": [] })).await.refused(409, "project-archived");
    assert_eq!(api.all(&format!("{PROJECTS}?isArchived=false")).await, Vec::<Value>::new());
    assert_eq!(api.all(&format!("{PROJECTS}?isArchived=true")).await.len(), 1);
    api.post(&path("/restore"), json!({})).await.expect(200);
    api.post("/api/agents/spawn", spawn).await.expect(201);
}

#[tokio::test]
async fn bad_projects_and_briefs_name_every_violation() {
    let server = Server::start(1).await;
    let api = server.api();
    let body = json!({
        "name": " ",
        "goals": [""],
        "workstreams": [{ "id": "a b", "name": "x", "colour": 1 }],
    });
    let mut violated = api.post(PROJECTS, body).await.expect(422).violated();
    violated.sort();
    assert_eq!(violated, ["goals[0]", "name", "workstreams[0].colour", "workstreams[0].id",]);
    let twice =
        json!({ "name": "x", "workstreams": [{ "id": "a", "name": "a" }, { "id": "a", "name": "b" }] });
    api.post(PROJECTS, twice).await.refused(422, "name-taken");

    let shop = project(&api, "Shop").await;
    api.post(PROJECTS, json!({ "name": "Shop" })).await.refused(409, "name-taken");
    let mut spawn = agent(&server, &shop, "Builder", &short());
    spawn["brief"]["workstream"] = json!("web");
    spawn["brief"]["readableWorkstreams"] = json!(["docs", "ops"]);
    spawn["brief"]["providerConfig"] = json!({ "model": "m", "apiKey": "sk-1", "autoApproveAll": true });
    let mut violated = api.post("/api/agents/spawn", spawn.clone()).await.expect(422).violated();
    violated.sort();
    assert_eq!(
        violated,
        [
            "brief.providerConfig.apiKey",
            "brief.providerConfig.autoApproveAll",
            "brief.providerConfig.model",
            "brief.readableWorkstreams[1]",
            "brief.workstream",
        ]
    );
    spawn["projectId"] = json!(NOBODY);
    assert_eq!(api.post("/api/agents/spawn", spawn).await.expect(422).violated(), ["projectId"]);
    assert_eq!(api.all("/api/agents").await, Vec::<Value>::new(), "nothing was started");
}

#[tokio::test]
async fn projects_of_other_owners_do_not_exist() {
    let server = Server::start(1).await;
    let (mine, theirs) = (server.api(), server.api_of("someone-else"));
    let shop = project(&mine, "Shop").await;
    let (builder, session) = spawned(&server, &shop, "Builder", &endless()).await;
    let id = shop["id"].as_str().unwrap();
    for path in [format!("{PROJECTS}/{id}"), format!("/api/agents/{builder}")] {
        theirs.get(&path).await.refused(404, "not-found");
    }
    theirs.patch(&format!("{PROJECTS}/{id}"), json!({})).await.refused(404, "not-found");
    for action in ["archive", "restore", "kill"] {
        theirs.post(&format!("{PROJECTS}/{id}/{action}"), json!({})).await.refused(404, "not-found");
    }
    for action in ["pause", "resume", "kill"] {
        theirs.post(&format!("/api/agents/{builder}/{action}"), json!({})).await.refused(404, "not-found");
    }
    theirs.get(&format!("/api/agents?projectId={id}")).await.refused(422, "validation-failed");
    for path in
        ["/api/agents/skills/resume", "/api/agents/nobody/resume", &format!("/api/agents/{NOBODY}/resume")]
    {
        mine.post(path, json!({})).await.refused(404, "not-found");
    }
    session.until_status("Running").await;
}

/// The briefs of `docs/projects.md`: each agent of the guide waits for a decision, and a brake stops all three.
#[tokio::test]
async fn agents_of_the_guide_wait_for_decisions_and_stop_under_a_brake() {
    let server = Server::start(1).await;
    let api = server.api();
    let shop = project(&api, "Shop").await;
    let mut sessions = Vec::new();
    for file in ["builder.json", "tester.json", "writer.json"] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/shop").join(file);
        let brief: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let body = json!({ "projectId": shop["id"], "brief": brief, "objective": "Build the shop",
            "workingDirectory": server.work_folder(), "budgetCapUsd": "5" });
        sessions.push(Session::spawn(&api, body).await);
    }
    let resolutions = [
        json!({ "resolutionType": "reject", "rationale": "Keep the build folder" }),
        json!({ "resolutionType": "modify", "modifiedInput": { "command": "npm ci" } }),
        json!({ "resolutionType": "choose_option", "chosenOptionId": "orders" }),
    ];
    for (session, resolution) in sessions.iter().zip(resolutions) {
        session.until_status("WaitingForInput").await;
        let waiting = api.all(&format!("/api/decisions?session={}", session.id)).await;
        crate::authorization::resolve(&api, &waiting[0], resolution).await;
        session.until_status("Running").await;
    }
    let scope = json!({ "type": "project", "projectId": shop["id"] });
    let brake =
        api.post("/api/brake", json!({ "scope": scope, "reason": "Look first" })).await.expect(202).body;
    for session in &sessions {
        session.until_status("Paused").await;
    }
    let brake = format!("/api/brakes/{}", brake["id"].as_str().unwrap());
    let stopped = async || {
        let view = api.get(&brake).await.expect(200).body;
        (view["progress"] == "3 of 3 confirmed").then_some(())
    };
    sessions[0].until_within(PATIENCE, "all confirmations", stopped).await;
    api.post(&format!("{brake}/release"), json!({})).await.expect(200);
    for session in &sessions {
        session.until_status("Running").await;
    }
}
