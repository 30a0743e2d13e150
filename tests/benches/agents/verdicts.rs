//! Authorization of tool calls: 50 agents of one project ask the control plane, each with a call every half second, and without pause.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use pilothouse_tests::{Api, ServerProcess, Session};
use serde_json::{Value, json};

use crate::figures::times;

const AGENTS: usize = 50;
const CALLS: usize = 20;
/// Time between two calls of an agent that works.
const PERIOD: Duration = Duration::from_millis(500);

/// An agent that works until it is stopped.
fn endless() -> Value {
    json!({ "steps": [{ "turn": { "steps": [{ "say": "Working." }, { "wait": 600_000 }] } }] })
}

async fn spawn(server: &ServerProcess, project: &Value) -> Session {
    let body = json!({
        "projectId": project["id"], "objective": "Build it", "workingDirectory": server.work_folder(), "budgetCapUsd": "1",
        "brief": { "role": "Builder", "workstream": "api", "adapter": "script", "providerConfig": { "script": endless() } },
    });
    let session = Session::spawn(&server.api(), body).await;
    session.until_said("Working.").await;
    session
}

/// The token of the session's run, which its sidecar has.
fn run_token(server: &ServerProcess, session: &str) -> String {
    let launches = pilothouse_tests::processes::run_folders(&server.data()).into_iter();
    let read = |folder: std::path::PathBuf| std::fs::read(folder.join("launch.json")).ok();
    let launches = launches.filter_map(read).filter_map(|json| serde_json::from_slice::<Value>(&json).ok());
    let launch = launches.into_iter().find(|launch| launch["sessionId"] == session).unwrap();
    launch["broker"]["token"].as_str().unwrap().to_owned()
}

/// The times of the calls of one agent, which begin every `period`, or one after the other.
async fn calls(api: &Api, session: &str, period: Option<Duration>) -> Vec<Duration> {
    let path = format!("/api/agent/sessions/{session}/authorize");
    let mut took = Vec::with_capacity(CALLS);
    let mut clock = period.map(tokio::time::interval);
    for n in 0..CALLS {
        let call = json!({ "toolCallId": format!("t{n}"), "tool": "Bash", "home": "/home/agent",
            "arguments": { "command": "cd src && cargo test 2>&1 | tail -20" } });
        if let Some(clock) = &mut clock {
            clock.tick().await;
        }
        let asked = Instant::now();
        api.post(&path, call).await.expect(200);
        took.push(asked.elapsed());
    }
    took
}

pub(crate) async fn verdicts() {
    let server = ServerProcess::start(1).await;
    let api = server.api();
    api.patch("/api/agents/pool", json!({ "maxConcurrentSessions": AGENTS })).await.expect(200);
    let project = json!({ "name": "Bench", "workstreams": [{ "id": "api", "name": "API" }] });
    let project = api.post("/api/projects", project).await.expect(201).body;
    let mut agents = Vec::with_capacity(AGENTS);
    for _ in 0..AGENTS {
        let session = spawn(&server, &project).await;
        agents.push((server.api_with(Some(run_token(&server, &session.id))), session.id.clone()));
    }
    for (what, period) in [("a call every 0.5 s each", Some(PERIOD)), ("without pause", None)] {
        let all = join_all(agents.iter().map(|(api, session)| calls(api, session, period))).await;
        times(&format!("verdicts: {AGENTS} agents, {what}"), all.into_iter().flatten().collect());
    }
    server.sidecars().iter().for_each(pilothouse_tests::processes::Sidecar::kill9);
}
