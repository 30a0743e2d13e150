//! Agents and clients during an outage of their server, and the descriptors that a session costs the server.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pilothouse_tests::{PATIENCE, ServerProcess, Session, processes, programs};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

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

/// A server that pauses its agents before it exits.
async fn pausing(deadline_divisor: u32) -> ServerProcess {
    ServerProcess::start_with(deadline_divisor, &[("PILOTHOUSE_PAUSE_AGENTS_ON_EXIT", "true")]).await
}

async fn terminated(server: &mut ServerProcess) {
    kill(pid_of(server), Signal::SIGTERM).unwrap();
    let give_up = Instant::now() + PATIENCE;
    while server.is_alive() {
        assert!(Instant::now() < give_up, "the server does not exit:\n{}", server.log());
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn agents_are_paused_before_the_server_shuts_down() {
    let mut server = pausing(1).await;
    let session = started(&server, &endless()).await;
    session.until_said("Working.").await;
    terminated(&mut server).await;
    assert!(!server.log().contains("an agent has not confirmed its pause"), "{}", server.log());
    let before = server.sidecars();
    assert_eq!(before.len(), 1, "the sidecar waits");
    server.restart().await;
    assert_eq!(session.view().await["status"], "Paused");
    assert_eq!(server.sidecars(), before, "the same process");
    session.post("/resume", json!({})).await;
    session.until_status("Running").await;
}

/// The sidecar has started, and its agent has not.
#[tokio::test]
async fn starting_agent_is_paused_before_the_server_shuts_down() {
    let mut server = pausing(1).await;
    let session = started(&server, &endless()).await;
    let process = async || (server.sidecars().len() == 1).then_some(());
    session.until_within(PATIENCE, "a sidecar", process).await;
    terminated(&mut server).await;
    server.restart().await;
    assert_eq!(session.view().await["status"], "Paused");
}

/// A sidecar that never becomes ready confirms no pause. The server ends within its limit and reports it.
#[tokio::test]
async fn agent_without_a_confirmed_pause_is_reported_at_the_exit() {
    let folder = tempfile::tempdir().unwrap();
    let (sidecar, written) = (folder.path().join("sidecar"), folder.path().join("pid"));
    let script = format!(
        "#!/bin/sh\ntest \"$1\" = confinement && exit\necho $$ > '{}'\nexec sleep 600\n",
        written.display()
    );
    std::fs::write(&sidecar, script).unwrap();
    std::fs::set_permissions(&sidecar, std::fs::Permissions::from_mode(0o755)).unwrap();
    let environment =
        [("PILOTHOUSE_PAUSE_AGENTS_ON_EXIT", "true"), ("PILOTHOUSE_SIDECAR", sidecar.to_str().unwrap())];
    let mut server = ServerProcess::start_with(20, &environment).await;
    let session = started(&server, &endless()).await;
    let process = session.until_within(PATIENCE, "a process", async || processes::written(&written)).await;
    terminated(&mut server).await;
    kill(process, Signal::SIGKILL).unwrap();
    assert!(server.log().contains("an agent has not confirmed its pause"), "{}", server.log());
}

/// Forwards connections to a server. Once dropped it is like a server that stops: it takes no connections and has closed all except
/// live streams.
struct Proxy {
    address: String,
    _runs: watch::Sender<()>,
}

impl Proxy {
    async fn start(server: &ServerProcess) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = server.url().trim_start_matches("http://").to_owned();
        let (runs, mut stopped) = watch::channel(());
        tokio::spawn(async move {
            loop {
                let client = tokio::select! {
                    accepted = listener.accept() => accepted.unwrap().0,
                    _ = stopped.changed() => return,
                };
                tokio::spawn(forward(client, server.clone(), stopped.clone()));
            }
        });
        Self { address, _runs: runs }
    }
}

async fn forward(mut client: TcpStream, server: String, mut stopped: watch::Receiver<()>) {
    let mut head = [0; 8];
    let length = client.peek(&mut head).await.unwrap_or(0);
    let is_stream = head[..length].starts_with(b"GET /ws/");
    let mut server = TcpStream::connect(server).await.unwrap();
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => {}
        _ = stopped.changed(), if !is_stream => {}
    }
}

#[tokio::test]
async fn watch_of_an_ended_session_keeps_its_exit_code_without_the_server() {
    let server = ServerProcess::start(1).await;
    let session = started(&server, &endless()).await;
    let proxy = Proxy::start(&server).await;
    let address = proxy.address.clone();
    let mut watching = Command::new(programs::pilothouse())
        .args(["watch", &session.id, "--url", &format!("http://{address}"), "--data"])
        .arg(server.data())
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut shown = String::new();
    while !shown.contains("Working.") {
        let line = timeout(PATIENCE, lines.next_line()).await.expect("a line").unwrap();
        shown.push_str(&line.expect("the watch continues"));
    }
    drop(proxy);
    let refused = async || TcpStream::connect(&address).await.is_err().then_some(());
    session.until_within(PATIENCE, "a refused connection", refused).await;
    session.post("/cancel", json!({})).await;
    while let Some(line) = timeout(PATIENCE, lines.next_line()).await.expect("an end").unwrap() {
        shown.push_str(&line);
    }
    let exit = timeout(PATIENCE, watching.wait()).await.unwrap().unwrap();
    assert_eq!(exit.code(), Some(5), "{shown}");
    assert!(shown.ends_with("is Cancelled"), "{shown}");
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
    // The test's client uses a few connections as well, and a start uses more for a moment.
    let settled = async || {
        let cost = descriptors(&server) - before;
        (SESSIONS..SESSIONS + 4).contains(&cost).then_some(())
    };
    first.until_within(PATIENCE, "one descriptor for each session", settled).await;
}
