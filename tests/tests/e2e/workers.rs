//! Separate `pilothouse worker` processes of a server.

use pilothouse_local_keys::DEFAULT_OWNER;
use pilothouse_tests::{PATIENCE, Session, WorkerProcess};
use serde_json::{Value, json};

use crate::projects::project;
use crate::scripts::{endless, with_output, works_until_message};
use crate::server::{Server, work};

fn worker(server: &Server, id: &str, args: &[&str]) -> WorkerProcess {
    WorkerProcess::start(server.url(), server.token(DEFAULT_OWNER), id, args)
}

async fn session(server: &Server, script: &Value, labels: Value) -> Session {
    let mut body = work(server, script);
    body["labels"] = labels;
    Session::start(&server.api(), body).await
}

/// The worker's entry in the owner's list.
async fn listed(server: &Server, id: &str) -> Option<Value> {
    let workers = server.api().get("/api/workers").await.expect(200).body;
    workers["items"].as_array().unwrap().iter().find(|worker| worker["id"] == id).cloned()
}

/// A session is launched, messaged and ended on a worker: its end is reported, and its place becomes free.
#[tokio::test]
async fn session_runs_on_its_requested_worker() {
    let server = Server::start(1).await;
    let worker = worker(&server, "mini", &["--label", "os=mac", "--capacity", "1"]);
    let session = session(&server, &with_output(), json!({ "worker/os": "mac" })).await;
    let view = session.until("output", |view| view["hasPendingReview"] == true).await;
    assert!(server.sidecars().is_empty(), "not here");
    assert_eq!(worker.sidecars().len(), 1, "{}", worker.log());
    let mini = listed(&server, "mini").await.unwrap();
    assert_eq!(mini["runs"], json!([view["currentRun"]["id"]]));
    assert_eq!(server.api_of("somebody-else").get("/api/workers").await.expect(200).body["items"], json!([]));

    let output = &view["output"]["outputId"];
    session.post("/approve", json!({ "outputId": output })).await.expect(200);
    let free = async || {
        let mini = listed(&server, "mini").await.unwrap();
        (mini["runs"] == json!([])).then_some(())
    };
    session.until_within(PATIENCE, "a free place on the worker", free).await;
    assert!(worker.sidecars().is_empty());
    let free = async || (server.api().get("/api/agents/pool").await.body["activeCount"] == 0).then_some(());
    session.until_within(PATIENCE, "a free slot", free).await;
}

#[tokio::test]
async fn session_waits_for_its_requested_worker() {
    let server = Server::start(1).await;
    let session = session(&server, &endless(), json!({ "worker/id": "late" })).await;
    session.until("being launched", |view| view["queuedReason"] == "launching").await;
    let _other = worker(&server, "other", &[]);
    let late = worker(&server, "late", &[]);
    session.until_said("Working.").await;
    assert_eq!(late.sidecars().len(), 1);
}

/// A killed worker leaves its sidecars running. After a restart it adopts them and reports their exits.
#[tokio::test]
async fn killed_worker_adopts_its_sidecars_after_a_restart() {
    let server = Server::start(1).await;
    let mut worker = worker(&server, "w", &[]);
    let session = session(&server, &works_until_message(), json!({ "worker/id": "w" })).await;
    session.until_said("Working.").await;
    worker.kill9();
    let body = json!({ "content": "go on", "priority": "Immediate" });
    session.post("/messages/queue", body).await.expect(201);
    session.until_said("Told: go on").await;
    session.until_status("Idle").await;
    let before = worker.sidecars();
    assert_eq!(before.len(), 1, "the sidecar continues");

    worker.restart();
    assert_eq!(worker.sidecars(), before, "the same process");
    before[0].kill9();
    session.until("hibernation", |view| view["hibernated"] == true).await;
    assert!(worker.sidecars().is_empty());
}

/// A forced cancellation reaches an unresponsive sidecar through its worker.
#[tokio::test]
async fn a_frozen_sidecar_is_ended_by_its_worker() {
    let server = Server::start(1).await;
    let worker = worker(&server, "w", &[]);
    let session = session(&server, &endless(), json!({ "worker/id": "w" })).await;
    session.until_said("Working.").await;
    worker.sidecars()[0].freeze();
    session.post("/cancel", json!({ "force": true })).await;
    session.until_status("Cancelled").await;
    let gone = async || worker.sidecars().is_empty().then_some(());
    session.until_within(PATIENCE, "the end of the sidecar", gone).await;
}

/// The worker of the server and a separate one announce their disk. No test machine has 16 TiB of free space.
#[tokio::test]
async fn workers_announce_their_free_disk() {
    let server = Server::start(1).await;
    let _worker = worker(&server, "w", &[]);
    let announced = listed(&server, "w").await.unwrap()["workspace"]["freeDiskMb"].clone();
    assert!(announced.as_u64().is_some_and(|free| free > 0), "{announced}");
    let shop = project(&server.api(), "Shop").await;
    let spawn = async |disk: u64| {
        let brief = json!({
            "role": "Builder", "workstream": "api", "adapter": "script",
            "providerConfig": { "script": with_output() },
            "workspaceRequirements": { "resourceLimits": { "diskMb": disk } },
        });
        let body = json!({
            "projectId": shop["id"], "brief": brief, "objective": "Build it",
            "workingDirectory": server.work_folder(), "budgetCapUsd": "5",
        });
        server.api().post("/api/agents/spawn", body).await
    };
    let refused = spawn(16_777_216).await.expect(422).body;
    let why = refused["violations"][0]["message"].as_str().unwrap();
    assert!(why.matches(" MiB of free disk, and `diskMb` is 16777216").count() >= 2, "{why}");
    let started = spawn(64).await.expect(201).body;
    let session = Session::of_start(&server.api(), started);
    session.until("output", |view| view["hasPendingReview"] == true).await;
}

/// A terminated worker leaves its sidecars running, and an ephemeral one ends them.
#[tokio::test]
async fn terminated_worker_leaves_agents_running_unless_ephemeral() {
    let server = Server::start(1).await;
    let mut stays = worker(&server, "stays", &[]);
    let mut goes = worker(&server, "goes", &["--ephemeral"]);
    let one = session(&server, &endless(), json!({ "worker/id": "stays" })).await;
    let other = session(&server, &endless(), json!({ "worker/id": "goes" })).await;
    one.until_said("Working.").await;
    other.until_said("Working.").await;
    assert!(stays.terminate());
    assert_eq!(stays.sidecars().len(), 1);
    assert!(goes.terminate());
    assert!(goes.sidecars().is_empty(), "{}", goes.log());
    assert_eq!(listed(&server, "stays").await.unwrap()["draining"], true);
    assert_eq!(listed(&server, "goes").await, None, "the worker is removed");
    other.until_status("Failed").await;
    assert_eq!(one.view().await["status"], "Running");
}
