//! A full disk (docs/failures.md): sessions are paused or held, acknowledged data is kept, and work continues once there is space.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use pilothouse_tests::{Machine, ServerProcess, Session};
use reqwest::Method;
use serde_json::{Value, json};

use crate::scripts::{say, script, turn};

const LINES: usize = 60;

/// A session whose agent says one line after another for some seconds.
async fn talking(server: &ServerProcess) -> Session {
    let lines = (1..=LINES).flat_map(|n| [say(&line(n)), json!({ "wait": 100 })]);
    let body = json!({
        "workingDirectory": server.work_folder(), "objective": "Talk", "adapter": "script",
        "budgetCapUsd": "1",
        "adapterOptions": { "script": script(&[turn(&lines.collect::<Vec<_>>())]) },
    });
    let session = Session::start(&server.api(), body).await;
    session.until_said(&line(3)).await;
    session
}

fn line(n: usize) -> String {
    format!("line {n}")
}

async fn lines_of(session: &Session) -> Vec<Value> {
    session.messages().await.into_iter().map(|message| message["content"].clone()).collect()
}

/// Checks that the session ended its turn in its first run, and said each line once.
async fn nothing_was_lost(session: &Session) {
    let view = session.until_status("Idle").await;
    let said = lines_of(session).await;
    assert_eq!(said, (1..=LINES).map(|n| json!(line(n))).collect::<Vec<_>>());
    assert_eq!(view["retryCount"], 0);
    let runs = session.activity().await.iter().filter(|item| item["type"] == "RunStarted").count();
    assert!(runs <= 1, "the agent was restarted");
}

#[tokio::test]
async fn a_full_disk_pauses_sessions_and_loses_nothing() {
    let machine = Machine { disk_mebibytes: Some(64), ..Machine::default() };
    let environment = [("PILOTHOUSE_DISK_RESERVE_MIB", "16")];
    let Some(server) = ServerProcess::start_on(1, &environment, machine).await else {
        eprintln!("skipped: only root can mount the small disk of this test");
        return;
    };
    let disk = server.disk().unwrap();

    // The disk is nearly full: sessions are paused while that can still be recorded.
    let session = talking(&server).await;
    disk.fill(8);
    let view = session.until_status("Paused").await;
    assert_eq!((&view["pausedReason"], &view["fullDisk"]), (&json!("disk-full"), &json!("server")));
    let refused = session.post("/resume", json!({})).await;
    assert_eq!(refused.header("retry-after"), "5");
    refused.refused(507, "storage-full");
    let start = json!({ "workingDirectory": server.work_folder(), "objective": "x", "budgetCapUsd": "1" });
    server.api().post("/api/agents/sessions", start).await.refused(507, "storage-full");
    let notified = server.api().all("/api/notifications").await;
    assert!(notified.iter().any(|notification| notification["kind"] == "disk-full"), "{notified:?}");
    disk.clear();
    session.until("running again", |view| view["status"] != "Paused" && view["status"] != "Resuming").await;
    nothing_was_lost(&session).await;

    // The disk becomes full at once, during the work.
    let session = talking(&server).await;
    let run = session.view().await["currentRun"]["id"].clone();
    disk.fill(0);
    session
        .until_within(pilothouse_tests::PATIENCE, "a refusal", async || {
            disk.fill(0);
            (session.post("/resume", json!({})).await.status == 507).then_some(())
        })
        .await;
    // A full disk leaves no condition to wait for. Server and sidecar reach it meanwhile.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let view = session.get("").await.expect(200).body;
    assert!(!matches!(view["status"].as_str(), Some("Failed" | "Completed" | "Cancelled")), "{view}");
    disk.clear();
    nothing_was_lost(&session).await;
    assert_eq!(session.view().await["currentRun"]["id"], run);
}

/// After the disk refused a write, stops work again as soon as there is any space, although the disk is still nearly full.
#[tokio::test]
async fn stops_are_carried_out_when_a_full_disk_gets_a_little_space() {
    let machine = Machine { disk_mebibytes: Some(64), ..Machine::default() };
    let environment = [("PILOTHOUSE_DISK_RESERVE_MIB", "16")];
    let Some(server) = ServerProcess::start_on(1, &environment, machine).await else {
        eprintln!("skipped: only root can mount the small disk of this test");
        return;
    };
    let disk = server.disk().unwrap();
    let (cancelled, paused) = tokio::join!(talking(&server), talking(&server));
    let attempts = AtomicU32::new(0);
    paused
        .until_within(pilothouse_tests::PATIENCE, "a refused write", async || {
            disk.fill(0);
            // Accepted on a full disk, and stores the response to each key: only a refused write answers 507.
            let key = attempts.fetch_add(1, Ordering::SeqCst).to_string();
            let (api, path) = (server.api(), paused.path("/messages/queue"));
            let cleared = api.send(Method::DELETE, &path, &[("idempotency-key", key.as_str())], None).await;
            (cleared.status == 507).then_some(())
        })
        .await;
    disk.release(10);
    let cancel = cancelled.post("/cancel", json!({})).await;
    assert!(matches!(cancel.status, 200 | 202), "{}", cancel.text);
    cancelled.until_status("Cancelled").await;
    let view = paused.until_status("Paused").await;
    assert_eq!((&view["pausedReason"], &view["fullDisk"]), (&json!("disk-full"), &json!("server")));
    paused.post("/resume", json!({})).await.refused(507, "storage-full");
    disk.clear();
    nothing_was_lost(&paused).await;
}

#[tokio::test]
async fn server_refuses_to_start_on_a_full_disk_and_keeps_everything() {
    let machine = Machine { disk_mebibytes: Some(64), ..Machine::default() };
    let environment = [("PILOTHOUSE_DISK_RESERVE_MIB", "16")];
    let Some(mut server) = ServerProcess::start_on(1, &environment, machine).await else {
        eprintln!("skipped: only root can mount the small disk of this test");
        return;
    };
    let session = talking(&server).await;
    let run = session.view().await["currentRun"]["id"].clone();
    server.kill9();
    server.disk().unwrap().fill(0);
    let before = files(&server.data());
    let (code, said) = server.refused_restart();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("is full; nothing was changed. Free some space"), "{said}");
    assert!(said.contains("16 MiB"), "{said}");
    assert_eq!(said.trim().lines().count(), 1, "{said}");
    assert_eq!(files(&server.data()), before, "nothing was created");
    server.disk().unwrap().clear();
    server.restart().await;
    nothing_was_lost(&session).await;
    assert_eq!(session.view().await["currentRun"]["id"], run);
}

fn files(folder: &Path) -> BTreeSet<PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}
