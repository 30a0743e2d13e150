//! Every intermediate status survives a restart: it settles in the correct status, and no superfluous process remains
//! (decisions 7, 12, 14, 15; S0, design notes: intermediate state persistence on restart).

use std::path::PathBuf;

use nix::unistd::Pid;
use pilothouse_tests::processes::{Sidecar, lives, written};
use pilothouse_tests::{PATIENCE, Session};
use serde_json::{Value, json};

use crate::scripts::{say, script, short, turn};
use crate::server::{Server, started, work};

/// At least ten seconds: longer than a restart on a busy machine.
const DEADLINE_DIVISOR: u32 = 3;

/// The request, the command that it sends, and the resulting status.
const REQUESTS: [(&str, &str, &str); 4] = [
    ("interrupt", "interrupt", "Interrupting"),
    ("pause", "pause", "Pausing"),
    ("resume", "resume", "Resuming"),
    ("cancel", "stop", "Cancelling"),
];

struct Between {
    status: &'static str,
    session: Session,
    pid: Pid,
    /// The folder in which its criteria are checked.
    folder: Option<PathBuf>,
}

fn process_of(server: &Server, view: &Value) -> Pid {
    let run = view["currentRun"]["id"].as_str().unwrap();
    let found = server.sidecars().into_iter().find(|sidecar| sidecar.run == run);
    found.unwrap_or_else(|| panic!("no process of run {run}")).pid
}

/// Sessions in each intermediate status: the sidecar ignores the first command, or all of them. The requests are concurrent, so that none
/// settles before the test continues.
async fn requested(server: &Server, once: bool) -> Vec<Between> {
    let mut sessions = Vec::new();
    for (_, command, status) in REQUESTS {
        let ignore = json!({ "ignore": { "command": command, "untilRepeated": once } });
        let plays = script(&[turn(&[ignore, say("Working."), json!({ "wait": 600_000 })])]);
        let session = started(server, &plays).await;
        session.until_said("Working.").await;
        if status == "Resuming" {
            session.post("/pause", json!({})).await.expect(202);
            session.until_status("Paused").await;
        }
        sessions.push(session);
    }
    let mut between = Vec::new();
    for (session, (request, _, status)) in sessions.into_iter().zip(REQUESTS) {
        let view = session.post(&format!("/{request}"), json!({})).await.expect(202).body;
        assert_eq!(view["status"], status);
        between.push(Between { status, pid: process_of(server, &view), session, folder: None });
    }
    between
}

async fn waiting(server: &Server) -> Between {
    let ask = json!({ "question": { "id": "q1", "questions": [{ "question": "Which?" }] } });
    let session = started(server, &script(&[turn(&[ask, say("Thanks.")])])).await;
    let view = session.until_status("WaitingForInput").await;
    Between { status: "WaitingForInput", pid: process_of(server, &view), session, folder: None }
}

async fn validating(server: &Server) -> Between {
    let folder = server.work_folder().join("validating");
    std::fs::create_dir(&folder).unwrap();
    let mut body = work(server, &short());
    body["workingDirectory"] = json!(folder);
    let command = "echo $$ > checking; until [ -e go ]; do sleep 0.05; done";
    body["autoContinueConfig"] =
        json!({ "validationCriteria": [{ "type": "CustomCommand", "customCommand": command }] });
    let session = Session::start(&server.api(), body).await;
    let file = folder.join("checking");
    session.until_within(PATIENCE, "a validation", async || written(&file)).await;
    let view = session.view().await;
    Between { status: "Running", pid: process_of(server, &view), session, folder: Some(folder) }
}

/// One session in each intermediate status.
async fn everything_between(server: &Server) -> Vec<Between> {
    let mut between = vec![waiting(server).await, validating(server).await];
    between.extend(requested(server, true).await);
    between
}

async fn until_gone(session: &Session, pid: Pid) {
    let gone = async || (!lives(pid)).then_some(());
    session.until_within(PATIENCE, "the end of a process", gone).await;
}

/// (a) The server dies and the sidecars live: the requests complete.
#[tokio::test]
async fn pending_requests_complete_after_a_server_restart() {
    let mut server = Server::start(DEADLINE_DIVISOR).await;
    let between = everything_between(&server).await;
    server.kill9();
    server.restart().await;
    for Between { status, session, pid, folder } in between {
        let lives_on = match status {
            "Interrupting" => session.until_status("Interrupted").await,
            "Pausing" => session.until_status("Paused").await,
            "Resuming" => session.until_status("Running").await,
            "Cancelling" => {
                session.until_status("Cancelled").await;
                until_gone(&session, pid).await;
                continue;
            }
            "WaitingForInput" => {
                let answer = json!({ "question": "Which?", "answer": "Left" });
                session.post("/answer", json!({ "requestId": "q1", "answers": [answer] })).await.expect(200);
                session.until_said("Thanks.").await;
                session.until_status("Idle").await
            }
            _ => {
                assert_eq!(session.view().await["validating"], true);
                std::fs::write(folder.unwrap().join("go"), "").unwrap();
                session.until_status("Idle").await
            }
        };
        assert_eq!(
            (&lives_on["hibernated"], &lives_on["currentRun"]["ordinal"]),
            (&json!(false), &json!(1)),
            "{status}"
        );
        assert_eq!(process_of(&server, &lives_on), pid, "{status}: the same process");
        assert!(lives(pid));
    }
}

/// (b) Server and sidecars die: a process death during work is a failure, at rest it is not (decision 14). A cancellation completes, and
/// the next run resumes an agent that did not receive its resume.
#[tokio::test]
async fn pending_requests_settle_after_everything_died() {
    let mut server = Server::start(DEADLINE_DIVISOR).await;
    let between = everything_between(&server).await;
    server.kill9();
    let sidecars = server.sidecars();
    assert_eq!(sidecars.len(), between.len());
    sidecars.iter().for_each(Sidecar::kill9);
    server.restart().await;
    for Between { status, session, pid, folder } in between {
        let settled = match status {
            "Cancelling" => session.until_status("Cancelled").await,
            "WaitingForInput" => session.until("hibernation", |v| v["hibernated"] == true).await,
            "Running" => session.until("hibernation", |v| v["hibernated"] == true).await,
            "Resuming" => {
                let resumed = |v: &Value| v["status"] == "Running" && v["currentRun"]["ordinal"] == 2;
                session.until("its next run", resumed).await;
                session.post("/cancel", json!({})).await.expect(202);
                session.until_status("Cancelled").await
            }
            _ => session.until_status("Failed").await,
        };
        match status {
            "Cancelling" | "Resuming" => {}
            "WaitingForInput" => assert_eq!(settled["status"], "WaitingForInput"),
            "Running" => assert_eq!(settled["status"], "Idle", "its turn was over"),
            _ => assert_eq!(settled["failureReason"]["reason"], "InfrastructureError", "{status}"),
        }
        until_gone(&session, pid).await;
        if let Some(folder) = folder {
            until_gone(&session, written(&folder.join("checking")).unwrap()).await;
        }
        let free = async || session.view().await["currentRun"].is_null().then_some(());
        session.until_within(PATIENCE, "the end of the run", free).await;
    }
    let free = async || {
        let pool = server.api().get("/api/agents/pool").await.expect(200).body;
        (pool["activeCount"] == 0).then_some(())
    };
    server.api().session("none").until_within(PATIENCE, "an empty pool", free).await;
}

/// The runtime enforces a command that is never acknowledged, even after an outage of the server.
#[tokio::test]
async fn unacknowledged_requests_are_enforced_after_a_restart() {
    let mut server = Server::start(DEADLINE_DIVISOR).await;
    let between = requested(&server, false).await;
    server.kill9();
    server.restart().await;
    for (Between { session, pid, .. }, status) in
        between.into_iter().zip(["Interrupted", "Paused", "Paused", "Cancelled"])
    {
        let resolved = |v: &Value| v["status"] == status && v["currentRun"].is_null();
        session.until(status, resolved).await;
        until_gone(&session, pid).await;
    }
}

/// An accepted start is executed once, or fails.
#[tokio::test]
async fn a_launch_survives_a_restart() {
    let mut server = Server::start(DEADLINE_DIVISOR).await;
    let endless = script(&[turn(&[say("Working."), json!({ "wait": 600_000 })])]);
    let launched = started(&server, &endless).await;
    server.kill9();
    server.restart().await;
    launched.until_said("Working.").await;
    assert_eq!(server.sidecars().len(), 1);
    assert_eq!(launched.said().await, ["Working."]);

    let killed = started(&server, &endless).await;
    server.kill9();
    server.sidecars().iter().for_each(Sidecar::kill9);
    server.restart().await;
    // If its process did not exist yet, the session is launched now.
    let settled = |v: &Value| v["status"] == "Failed" || v["status"] == "Running";
    let view = killed.until("its start", settled).await;
    let alive = usize::from(view["status"] == "Running");
    let left = async || (server.sidecars().len() == alive).then_some(());
    killed.until_within(PATIENCE, "as many processes as there should be", left).await;
}
