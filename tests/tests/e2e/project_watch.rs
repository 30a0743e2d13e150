//! `pilothouse project watch` (decision 82).

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use pilothouse_tests::{PATIENCE, programs};
use serde_json::{Value, json};

use crate::project_stream::{project, spawn};
use crate::scripts::{say, script, turn};
use crate::server::Server;

/// A running command with the lines that it prints.
struct Watching {
    child: Child,
    lines: Receiver<String>,
    shown: Vec<String>,
}

impl Watching {
    fn start(server: &Server, more: &[&str]) -> Self {
        let mut command = Command::new(programs::pilothouse());
        command.args(["project", "watch", "Shop", "--url", server.url(), "--data"]).arg(server.keys_folder());
        let mut child = command.args(more).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines() {
                if line.map_or(true, |line| sender.send(line).is_err()) {
                    break;
                }
            }
        });
        Self { child, lines, shown: Vec::new() }
    }

    /// Waits for a line with all of these parts.
    fn until(&mut self, parts: &[&str]) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| panic!("waited for {parts:?} after {:#?}", self.shown));
            self.shown.push(line.clone());
            if parts.iter().all(|part| line.contains(part)) {
                return line;
            }
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command continues after a restart of the server, and repeats nothing. Its cursor continues it in another process.
#[tokio::test(flavor = "multi_thread")]
async fn command_survives_a_restart_of_the_server() {
    let mut server = Server::start(1).await;
    project(&server).await;
    let wait = json!({ "waitForMessage": {} });
    let plays = script(&[turn(&[say("Working."), wait, say("Going on."), json!({ "wait": 600_000 })])]);
    let (_, session) = spawn(&server, "Builder", &plays).await;
    let (mut lines, mut json) = (Watching::start(&server, &[]), Watching::start(&server, &["--json"]));
    lines.until(&["Shop", "adaptive"]);
    let state: Value = serde_json::from_str(&json.until(&["state_sync"])).unwrap();
    session.until_said("Working.").await;
    server.kill9();
    server.restart().await;
    session.say("Go on.", "Immediate").await;
    lines.until(&["Builder", "status", "Going on."]);
    json.until(&["Going on."]);
    for shown in [&lines.shown, &json.shown] {
        assert!(shown.iter().filter(|line| line.contains("Working.")).count() <= 1, "{shown:#?}");
    }
    let mut again = Watching::start(&server, &["--json", "--after", state["cursor"].as_str().unwrap()]);
    let first: Value = serde_json::from_str(&again.until(&["envelope"])).unwrap();
    assert_eq!(first["type"], "event", "the cursor is known");
    again.until(&["Going on."]);
    assert_eq!(again.shown, json.shown[1..], "the same messages with the same cursors");
}
