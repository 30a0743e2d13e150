//! A worker whose sidecars run in this process: the real ones, without a process each.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pilothouse_client::Client;
use pilothouse_wire::launch::{LaunchRequest, RunAccess};
use pilothouse_wire::worker::{
    ClaimResponse, ClaimRun, Heartbeat, Order, ReportedRun, RunState, TakeOrders, WorkerId,
};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::LocalSet;

/// Sessions with this label run on workers of this module.
pub(crate) const LABEL: (&str, &str) = ("crowd", "yes");
/// Most runs of one worker.
pub(crate) const CAPACITY: usize = 500;

const BEAT: Duration = Duration::from_secs(5);

/// Dropping it removes the folders of its runs.
pub(crate) struct CrowdedWorker {
    id: WorkerId,
    client: Client,
    folder: TempDir,
    runs: Mutex<Vec<ReportedRun>>,
    /// Folders of runs, for the thread of the sidecars.
    prepared: mpsc::UnboundedSender<PathBuf>,
}

/// Runs a sidecar for each folder. Sidecars are made for a runtime with one thread.
fn run_sidecars(mut prepared: mpsc::UnboundedReceiver<PathBuf>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let sidecars = LocalSet::new();
    sidecars.spawn_local(async move {
        while let Some(folder) = prepared.recv().await {
            // They end with the server, which is killed at the end.
            tokio::task::spawn_local(async move { drop(pilothouse_sidecar::run::run(&folder, None).await) });
        }
    });
    runtime.block_on(sidecars);
}

impl CrowdedWorker {
    /// Registers a worker, and runs what is assigned to it until the runtime ends.
    pub(crate) async fn start(client: Client, id: &str) -> Arc<Self> {
        let folder = tempfile::tempdir().unwrap();
        let (prepared, folders) = mpsc::unbounded_channel();
        std::thread::spawn(|| run_sidecars(folders));
        let worker =
            Arc::new(Self { id: id.parse().unwrap(), client, folder, runs: Mutex::default(), prepared });
        worker.beat().await;
        let beating = Arc::clone(&worker);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(BEAT).await;
                beating.beat().await;
            }
        });
        tokio::spawn(Arc::clone(&worker).serve());
        worker
    }

    async fn beat(&self) {
        let runs = self.runs.lock().unwrap().clone();
        let labels = [(LABEL.0.to_owned(), LABEL.1.to_owned())].into();
        let heartbeat = Heartbeat { labels, capacity: CAPACITY as u32, runs, ..Heartbeat::default() };
        self.client.send_heartbeat(&self.id, &heartbeat).await.unwrap();
    }

    async fn serve(self: Arc<Self>) {
        let mut done = Vec::new();
        loop {
            let request =
                TakeOrders { done: std::mem::take(&mut done), wait_seconds: 20.0, ..TakeOrders::default() };
            let Ok(taken) = self.client.take_assignments(&self.id, &request).await else { return };
            for order in taken.orders {
                if let Order::Launch { request } = serde_json::from_str(&order.body).unwrap() {
                    self.launch(request).await;
                }
                done.push(order.receipt);
            }
        }
    }

    async fn launch(&self, request: LaunchRequest) {
        let claim = ClaimRun { run_id: request.run_id };
        if let ClaimResponse::Claimed { access } = self.client.claim_run(&self.id, &claim).await.unwrap() {
            self.runs.lock().unwrap().push(ReportedRun { run_id: request.run_id, state: RunState::Alive });
            self.run(request, *access);
        }
    }

    fn run(&self, request: LaunchRequest, access: RunAccess) {
        let folder = self.folder.path().join(request.run_id.to_string());
        let home = folder.join("session");
        std::fs::create_dir_all(&home).unwrap();
        let launch = access.launch(request, home.to_string_lossy().into_owned());
        std::fs::write(folder.join("launch.json"), serde_json::to_vec(&launch).unwrap()).unwrap();
        self.prepared.send(folder).unwrap();
    }
}
