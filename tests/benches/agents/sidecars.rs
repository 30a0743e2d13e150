//! A sidecar with the native agent: time to its first model request, and memory.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pilothouse_model_server::{ModelServer, Outcome, Script};
use serde_json::json;

use crate::alone;
use crate::figures::{self, figure, times};
use crate::gateway::{RunGateway, always};

/// Limit of every wait.
const PATIENCE: Duration = Duration::from_secs(30);
const STARTS: usize = 20;

async fn soon<T>(gateway: Option<&RunGateway>, future: impl Future<Output = T>) -> T {
    let Ok(value) = tokio::time::timeout(PATIENCE, future).await else {
        panic!("timed out\n{}", gateway.map(RunGateway::logged).unwrap_or_default());
    };
    value
}

/// Measures the time from the start of a process to its first model request, which gets no answer.
pub(crate) async fn start() {
    let script = Script::from_value(always(&json!({ "text": "Hello.", "wait": "never" }))).unwrap();
    let (mut agents, mut worked) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let server = ModelServer::start(script.clone()).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let begun = Instant::now();
        let mut agent = Command::new(std::env::current_exe().unwrap())
            .env(alone::FOLDER, folder.path())
            .env(alone::MODELS, format!("{}/v1/", server.base_url()))
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let asked = soon(None, server.wait_for(1)).await;
        worked.push(figures::on_processor(agent.id()));
        agents.push(asked[0].received - begun);
        agent.kill().unwrap();
        agent.wait().unwrap();
    }
    times("start: the agent alone, exec to its first model request", agents);
    times("start: of that on a processor", worked);

    let (mut sidecars, mut worked) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let server = ModelServer::start(script.clone()).await.unwrap();
        let gateway = RunGateway::new(server.base_url(), Some("say hello")).await;
        let begun = Instant::now();
        let sidecar = gateway.sidecar();
        let asked = soon(Some(&gateway), server.wait_for(1)).await;
        worked.push(figures::on_processor(sidecar.pid()));
        sidecars.push(asked[0].received - begun);
    }
    times("start: sidecar with `begin` queued, exec to model request", sidecars);
    times("start: of that on a processor", worked);
}

/// Measures the memory of a sidecar before its first turn, during a turn, and after a long one.
pub(crate) async fn memory() {
    let text = "word ".repeat(2000);
    let script = json!({ "conversations": [{ "steps": [
        { "text": "I look around.", "tools": [{ "name": "bash", "input": { "command": "seq 1 20000" } }] },
        { "text": text, "waitInside": "go on" },
    ] }] });
    let server = ModelServer::start(Script::from_value(script).unwrap()).await.unwrap();
    let idle = RunGateway::new(server.base_url(), None).await;
    let sidecar = idle.sidecar();
    soon(Some(&idle), async {
        while idle.events() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    // No event reports that the sidecar is idle, which it is after it has polled for commands for a while.
    tokio::time::sleep(Duration::from_secs(1)).await;
    figure("memory: sidecar with the native agent, idle", resident(sidecar.pid()));
    drop(sidecar);

    let gateway = RunGateway::new(server.base_url(), Some("look around")).await;
    let sidecar = gateway.sidecar();
    soon(Some(&gateway), server.wait_for(2)).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    figure("memory: the same while an answer arrives", resident(sidecar.pid()));
    server.open("go on");
    soon(
        Some(&gateway),
        server.wait_until(|all| all.iter().filter(|r| r.outcome == Outcome::Sent).count() == 2),
    )
    .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    figure(
        "memory: the same after that turn; its peak",
        format!("{}; {:.1} MB", resident(sidecar.pid()), figures::memory(sidecar.pid(), "VmHWM")),
    );
}

/// The resident memory of a process, and the part that is anonymous, not pages of the program file.
fn resident(pid: u32) -> String {
    format!("{:.1} MB, {:.1} MB its own", figures::memory(pid, "VmRSS"), figures::memory(pid, "RssAnon"))
}
