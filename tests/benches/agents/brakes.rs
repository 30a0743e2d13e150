//! The emergency brake under load: how long after its request the last of many agents has confirmed that it stopped.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream;
use pilothouse_tests::{ServerProcess, Session};
use serde_json::{Value, json};

use crate::figures::times;

/// Agents, each with a sidecar in a process of its own.
const AGENTS: usize = 200;
/// Starts at the same time. More would only wait for the processors.
const CONCURRENT_STARTS: usize = 8;
const ROUNDS: usize = 5;
const PATIENCE: Duration = Duration::from_mins(2);

/// An agent that reports usage all the time, so that the intake is busy when the brake comes.
fn busy() -> Value {
    let step =
        json!({ "usage": { "costUsd": "0.000001", "tokens": { "inputTokens": 1, "outputTokens": 1 } } });
    let steps = (0..400).flat_map(|_| [step.clone(), json!({ "wait": 1000 })]);
    let steps: Vec<Value> = std::iter::once(json!({ "say": "Working." })).chain(steps).collect();
    json!({ "steps": [{ "turn": { "steps": steps } }] })
}

async fn start(server: &ServerProcess) -> Session {
    let body = json!({
        "workingDirectory": server.work_folder(), "objective": "Build it", "budgetCapUsd": "1",
        "adapterOptions": { "script": busy() },
    });
    let session = Session::start(&server.api(), body).await;
    session.until_said("Working.").await;
    session
}

/// Pulls a brake on everything. Returns the times until it is accepted and until all have stopped, and its path.
async fn pull(server: &ServerProcess) -> (Duration, Duration, String) {
    let body = json!({ "scope": { "type": "all" }, "reason": "It deletes the wrong files" });
    let begun = Instant::now();
    let brake = server.api().post("/api/brake", body).await.expect(202).body;
    let accepted = begun.elapsed();
    assert_eq!(brake["sessionCount"], AGENTS);
    let path = format!("/api/brakes/{}", brake["id"].as_str().unwrap());
    loop {
        let view = server.api().get(&path).await.expect(200).body;
        if view["confirmedCount"] == AGENTS {
            return (accepted, begun.elapsed(), path);
        }
        assert!(begun.elapsed() < PATIENCE, "not all agents stopped: {}", view["confirmedCount"]);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) async fn brakes() {
    let server = ServerProcess::start(1).await;
    let api = server.api();
    api.patch("/api/agents/pool", json!({ "maxConcurrentSessions": AGENTS })).await.expect(200);
    let sessions: Vec<Session> =
        stream::iter(0..AGENTS).map(|_| start(&server)).buffer_unordered(CONCURRENT_STARTS).collect().await;
    let (mut accepted, mut stopped) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (answer, last, path) = pull(&server).await;
        accepted.push(answer);
        stopped.push(last);
        api.post(&format!("{path}/release"), json!({})).await.expect(200);
        for session in &sessions {
            session.until_status("Running").await;
        }
    }
    times(&format!("brakes: on {AGENTS} agents, until it is accepted"), accepted);
    times(&format!("brakes: on {AGENTS} agents, until the last has stopped"), stopped);
    server.sidecars().iter().for_each(pilothouse_tests::processes::Sidecar::kill9);
}
