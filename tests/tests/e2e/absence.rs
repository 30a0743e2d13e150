//! Agents during an outage of their server, and the descriptors that a session costs the server.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pilothouse_tests::{PATIENCE, ServerProcess, Session};
use serde_json::{Value, json};

use crate::scripts::endless;

async fn started(server: &ServerProcess, script: &Value) -> Session {
    let body = json!({
        "workingDirectory": server.work_folder(),
        "objective": "Keep the promise of this test",
        "budgetCapUsd": "5",
        "adapter": "script",
        "adapterOptions": { "script": script },
    });
    Session::start(&server.api(), body).await
}

fn pid_of(server: &ServerProcess) -> Pid {
    Pid::from_raw(i32::try_from(server.pid().unwrap()).unwrap())
}

#[tokio::test]
async fn agents_are_paused_before_the_server_shuts_down() {
    let variables = [("PILOTHOUSE_PAUSE_AGENTS_ON_EXIT", "true")];
    let mut server = ServerProcess::start_with(1, &variables).await;
    let session = started(&server, &endless()).await;
    session.until_said("Working.").await;
    kill(pid_of(&server), Signal::SIGTERM).unwrap();
    let give_up = std::time::Instant::now() + PATIENCE;
    while server.is_alive() {
        assert!(std::time::Instant::now() < give_up, "the server does not exit:\n{}", server.log());
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let before = server.sidecars();
    assert_eq!(before.len(), 1, "the sidecar waits");
    server.restart().await;
    assert_eq!(session.view().await["status"], "Paused");
    assert_eq!(server.sidecars(), before, "the same process");
    session.post("/resume", json!({})).await;
    session.until_status("Running").await;
}

fn descriptors(server: &ServerProcess) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", server.pid().unwrap())).unwrap().count()
}

/// A session costs one descriptor, because all requests of a sidecar share a connection.
#[tokio::test]
async fn a_session_costs_the_server_one_descriptor() {
    const SESSIONS: usize = 6;
    let server = ServerProcess::start(1).await;
    let first = started(&server, &endless()).await;
    first.until_said("Working.").await;
    let before = descriptors(&server);
    for _ in 0..SESSIONS {
        started(&server, &endless()).await.until_said("Working.").await;
    }
    let cost = descriptors(&server) - before;
    // The test's client uses a few connections as well.
    assert!((SESSIONS..SESSIONS + 4).contains(&cost), "{SESSIONS} sessions cost {cost} descriptors");
}
