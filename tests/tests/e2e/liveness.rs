//! Silent runs: suspended sidecars, server outages, clock steps, and lost machines
//! (`docs/decisions/0061-unreachable-runs.md`).

use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use pilothouse_local_keys::DEFAULT_OWNER;
use pilothouse_tests::{PATIENCE, ServerProcess, Session, WorkerProcess};
use serde_json::{Value, json};

use crate::scripts::{endless, works_until_message};

/// The embedded server, even with `PILOTHOUSE_CLOUD`: these tests control its clock and its processes.
async fn started(server: &ServerProcess, script: Value, labels: Value) -> Session {
    let body = json!({
        "workingDirectory": server.work_folder(), "objective": "Keep the promise of this test", "budgetCapUsd": "5",
        "adapterOptions": { "script": script }, "labels": labels,
    });
    let session = Session::start(&server.api(), body).await;
    session.until_said("Working.").await;
    session
}

fn step_clock(file: &Path, minutes: i64) {
    std::fs::write(file, (minutes * 60_000).to_string()).unwrap();
}

/// Checks that the first process of the session still responds.
async fn goes_on(session: &Session) {
    session.say("go on", "Immediate").await;
    session.until_said("Told: go on").await;
    let view = session.until_status("Idle").await;
    assert_eq!(view["currentRun"]["ordinal"], 1, "{view:#}");
}

#[tokio::test]
async fn suspended_sidecar_is_unreachable_and_recovers() {
    let server = ServerProcess::start(30).await;
    let session = started(&server, works_until_message(), json!({})).await;
    let sidecar = server.sidecars().remove(0);
    sidecar.freeze();
    let view = session.until("being unreachable", |view| view["unreachable"] == true).await;
    assert_eq!(view["status"], "Running");
    let pool = server.api().get("/api/agents/pool").await.expect(200).body;
    assert_eq!(pool["activeCount"], 1);
    assert_eq!(pool["leases"][0]["unreachableSince"], view["unreachableSince"]);
    session.say("go on", "Immediate").await;
    assert_eq!(session.queue().await["items"][0]["sent"], false, "the message waits");
    sidecar.thaw();
    session.until_said("Told: go on").await;
    let view = session.until("being reachable", |view| view["unreachable"] == false).await;
    assert_eq!(view["currentRun"]["ordinal"], 1);
    let said = |lines: &[Value], what: &str| {
        lines.iter().any(|line| line["summary"].as_str().is_some_and(|text| text.contains(what)))
    };
    session
        .until_activity("both notices", |lines| said(lines, "unreachable:") && said(lines, "reachable again"))
        .await;
}

#[tokio::test]
async fn restarted_server_adopts_its_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let offset = folder.path().join("offset");
    let clock = [("PILOTHOUSE_CLOCK_OFFSET_FILE", offset.to_str().unwrap())];
    let mut server = ServerProcess::start_with(20, &clock).await;
    let works = started(&server, works_until_message(), json!({})).await;
    let interrupted = started(&server, endless(), json!({})).await;
    interrupted.post("/interrupt", json!({})).await.expect(202);
    interrupted.until_status("Interrupted").await;
    let before = server.sidecars();
    // The outage is longer than all deadlines of the server.
    server.kill9();
    step_clock(&offset, 90);
    server.restart().await;
    goes_on(&works).await;
    // So is the clock step.
    let other = started(&server, works_until_message(), json!({})).await;
    step_clock(&offset, 90 + 9 * 60);
    goes_on(&other).await;
    let view = interrupted.view().await;
    assert_eq!((&view["status"], &view["hibernated"]), (&json!("Interrupted"), &json!(false)));
    let after = server.sidecars();
    assert!(before.iter().all(|sidecar| after.contains(sidecar)), "every process is kept");
}

/// A sidecar keeps the address of the server that started it. The next server listens there as well, or refuses to start.
#[tokio::test]
async fn server_at_another_address_keeps_its_agents() {
    let mut server = ServerProcess::start(20).await;
    let session = started(&server, works_until_message(), json!({})).await;
    let before = server.sidecars();
    let address = server.url().trim_start_matches("http://").to_owned();
    server.kill9();
    let other = TcpListener::bind(&address).unwrap();
    let (code, said) = server.refused_restart();
    assert_eq!(code, Some(1));
    assert!(said.contains(&format!("reach this server only at http://{address}")), "{said}");
    drop(other);
    for _ in 0..2 {
        server.restart_elsewhere().await;
        assert!(TcpListener::bind(&address).is_err(), "it listens at the first address as well");
    }
    let session = Session::new(server.api(), session.id, session.started);
    goes_on(&session).await;
    assert_eq!(session.said().await, ["Working.", "Told: go on"]);
    assert_eq!(server.sidecars(), before, "the same process");
}

/// During the sleep of a machine, its worker and its sidecar do not respond. The run continues, even after the deadline by which a
/// reachable worker would stop a silent sidecar.
#[tokio::test]
async fn a_run_survives_the_sleep_of_its_worker() {
    let server = ServerProcess::start(60).await;
    let worker = WorkerProcess::start(server.url(), server.token(DEFAULT_OWNER), "w", &[]);
    let session = started(&server, works_until_message(), json!({ "worker/id": "w" })).await;
    let before = worker.sidecars();
    worker.suspend_machine();
    let view = session.until("being unreachable", |view| view["unreachable"] == true).await;
    assert_eq!(view["status"], "Running");
    // Ten minutes with deadlines divided by sixty.
    let since = Instant::now();
    let view = session.until("ten minutes of silence", |_| since.elapsed() > Duration::from_secs(12)).await;
    assert_eq!((&view["status"], &view["unreachable"]), (&json!("Running"), &json!(true)));
    worker.resume_machine();
    goes_on(&session).await;
    assert_eq!(worker.sidecars(), before);
}

#[tokio::test]
async fn lost_worker_ends_its_runs_when_it_returns() {
    let server = ServerProcess::start(1).await;
    let mut worker = WorkerProcess::start(server.url(), server.token(DEFAULT_OWNER), "w", &[]);
    let session = started(&server, endless(), json!({ "worker/id": "w" })).await;
    worker.kill9();
    let left = worker.sidecars();
    assert_eq!(left.len(), 1);
    server.api().delete("/api/workers/w").await.refused(409, "worker-has-runs");
    server.api().delete("/api/workers/w?lost=true").await.expect(204);
    let view = session.until_status("Failed").await;
    assert_eq!(view["currentRun"], Value::Null);
    let free = async || (server.api().get("/api/agents/pool").await.body["activeCount"] == 0).then_some(());
    session.until_within(PATIENCE, "a free slot", free).await;
    let uncertain = |lines: &[Value]| {
        let mut texts = lines.iter().filter_map(|line| line["summary"].as_str());
        texts.any(|text| text.contains("the end of its process was not observed"))
    };
    session.until_activity("the uncertain end", uncertain).await;
    // The machine returns: its old run ends before any other process starts.
    worker.restart();
    session.post("/retry", json!({})).await.expect(202);
    session.until("its second run", |view| view["currentRun"]["ordinal"] == 2).await;
    let replaced = async || {
        let now = worker.sidecars();
        (now.len() == 1 && now != left).then_some(())
    };
    session.until_within(PATIENCE, "one process, of the second run", replaced).await;
}
