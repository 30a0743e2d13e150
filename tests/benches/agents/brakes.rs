//! The emergency brake under load: how long after its request the last of many agents has confirmed that it stopped.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream;
use pilothouse_tests::{ServerProcess, Session};
use serde_json::{Map, Value, json};

use crate::crowd::{CAPACITY, CrowdedWorker, LABEL};
use crate::figures::times;

/// Agents, each with a sidecar in a process of its own.
const PROCESSES: usize = 200;
/// Agents whose sidecars run in this process.
const IN_PROCESS: usize = 1000;
/// Starts at the same time. More would only wait for the processors.
pub(crate) const CONCURRENT_STARTS: usize = 8;
const ROUNDS: usize = 5;
const PATIENCE: Duration = Duration::from_mins(2);
/// Time between two events of an agent, in milliseconds: 30 events a minute.
const PERIOD: u32 = 2000;

/// An agent that reports usage all the time, so that the intake is busy when the brake comes.
fn busy() -> Value {
    let step =
        json!({ "usage": { "costUsd": "0.000001", "tokens": { "inputTokens": 1, "outputTokens": 1 } } });
    let endless = json!({ "repeat": { "times": 5000, "steps": [step, { "wait": PERIOD }] } });
    json!({ "steps": [{ "turn": { "steps": [{ "say": "Working." }, endless] } }], "onMessage": [endless] })
}

/// Starts an agent. A label places it on a worker with that label.
async fn start(server: &ServerProcess, label: Option<(&str, &str)>) -> Session {
    let labels: Map<String, Value> =
        label.into_iter().map(|(name, value)| (format!("worker/{name}"), json!(value))).collect();
    let body = json!({
        "workingDirectory": server.work_folder(), "objective": "Build it", "budgetCapUsd": "1", "labels": labels,
        "adapterOptions": { "script": busy() },
    });
    let session = Session::start(&server.api(), body).await;
    session.until_said("Working.").await;
    session
}

/// Pulls a brake on everything. Returns the times until it is accepted and until all have stopped, and its path.
async fn pull(server: &ServerProcess, agents: usize) -> (Duration, Duration, String) {
    let body = json!({ "scope": { "type": "all" }, "reason": "It deletes the wrong files" });
    let begun = Instant::now();
    let brake = server.api().post("/api/brake", body).await.expect(202).body;
    let accepted = begun.elapsed();
    assert_eq!(brake["sessionCount"], agents);
    let path = format!("/api/brakes/{}", brake["id"].as_str().unwrap());
    loop {
        let view = server.api().get(&path).await.expect(200).body;
        if view["confirmedCount"] == agents {
            return (accepted, begun.elapsed(), path);
        }
        assert!(begun.elapsed() < PATIENCE, "not all agents stopped: {}", view["confirmedCount"]);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Pulls and releases a brake on these agents several times.
async fn rounds(server: &ServerProcess, sessions: &[Session], kind: &str) {
    let (mut accepted, mut stopped, mut resumed) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (answer, last, path) = pull(server, sessions.len()).await;
        accepted.push(answer);
        stopped.push(last);
        let released = Instant::now();
        server.api().post(&format!("{path}/release"), json!({})).await.expect(200);
        for session in sessions {
            session.until_status("Running").await;
        }
        resumed.push(released.elapsed());
    }
    let agents = sessions.len();
    times(&format!("brakes: {agents} {kind}, until it is accepted"), accepted);
    times(&format!("brakes: {agents} {kind}, until the last has stopped"), stopped);
    times(&format!("brakes: {agents} {kind}, until the last is resumed"), resumed);
}

pub(crate) async fn server_for(agents: usize) -> ServerProcess {
    let server = ServerProcess::start(1).await;
    server.api().patch("/api/agents/pool", json!({ "maxConcurrentSessions": agents })).await.expect(200);
    server
}

pub(crate) async fn brakes() {
    let server = server_for(PROCESSES).await;
    let starts = stream::iter(0..PROCESSES).map(|_| start(&server, None));
    let sessions: Vec<Session> = starts.buffer_unordered(CONCURRENT_STARTS).collect().await;
    rounds(&server, &sessions, "processes").await;
    server.sidecars().iter().for_each(pilothouse_tests::processes::Sidecar::kill9);
}

pub(crate) async fn crowded() {
    let server = server_for(IN_PROCESS).await;
    let mut workers = Vec::new();
    for n in 0..IN_PROCESS.div_ceil(CAPACITY) {
        workers.push(CrowdedWorker::start(server.client(), &format!("crowd-{n}")).await);
    }
    let starts = stream::iter(0..IN_PROCESS).map(|_| start(&server, Some(LABEL)));
    let sessions: Vec<Session> = starts.buffer_unordered(CONCURRENT_STARTS).collect().await;
    rounds(&server, &sessions, "sidecars in one process").await;
}
