//! Prints the memory use of a sidecar, which shares its machine with the agent. The limit only detects leaks.

use serde_json::json;

use crate::gateway::Gateway;
use crate::sidecar::{Folders, begin, turn};

fn status(pid: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|l| l.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_busy_sidecar_does_not_grow() {
    let gateway = Gateway::start().await;
    let folders = Folders::new(&gateway);
    let sidecar = folders.start();
    gateway.until("a heartbeat", |g| (g.heartbeats() > 1).then_some(())).await;
    let idle = status(sidecar.pid(), "VmRSS");
    let threads = status(sidecar.pid(), "Threads");
    let text = "x".repeat(200);
    let steps = json!([turn(json!([{ "repeat": { "times": 3000, "steps": [{ "say": text }] } }]))]);
    gateway.send(begin(json!({ "script": { "steps": steps } })));
    let started = std::time::Instant::now();
    gateway.sees("turn_completed").await;
    let (busy, peak) = (status(sidecar.pid(), "VmRSS"), status(sidecar.pid(), "VmHWM"));
    println!(
        "idle {idle} kB, after 3000 events {busy} kB, peak {peak} kB, {threads} threads, {:?}",
        started.elapsed()
    );
    assert!(peak < 60_000, "{peak} kB");
    assert!(threads <= 4, "{threads} threads");
}
