//! Connects a worker to a control plane elsewhere.
//!
//! | module | content |
//! |---|---|
//! | `control_plane` | claims runs and reports exits over the API |
//! | `heartbeat` | registers the worker, reports its runs, renews the access to its queue |
//! | `assignments` | receives launch and stop assignments and processes them |
//! | `assignment_queue` | the queue of the worker: SQS, or the API |
//! | `worker_id` | the id of the worker in its data folder |
//!
//! The engine is the same [`Worker`](crate::Worker) that the embedded server has inside: it may be killed at any time,
//! and its next start adopts the sidecars that continued.

mod assignment_queue;
mod assignments;
mod control_plane;
mod heartbeat;
mod worker_id;

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use control_plane::ControlPlane;
use heartbeat::Heartbeats;
use pilothouse_client::{ApiError, Client};
use pilothouse_domain::project_agent::SandboxCapability;
use pilothouse_wire::worker::{Heartbeat, WorkerId};
use tokio::task::JoinSet;

use crate::engine::workspace;
use crate::{Containers, Ports, Worker, WorkerConfig, WorkerSecrets};

pub use worker_id::{WorkerIdError, load_or_create_worker_id};

/// How long sidecars may take to end with the worker.
const GRACE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
pub struct RemoteWorkerSettings {
    /// Unique for its owner.
    pub id: WorkerId,
    /// Labels for the placement of sessions.
    pub labels: BTreeMap<String, String>,
    pub capacity: u32,
    /// Whether it serves all owners.
    pub shared: bool,
    /// Capabilities in addition to the detected ones.
    pub capabilities: Vec<SandboxCapability>,
    pub data: PathBuf,
    pub sidecar: PathBuf,
    /// Containers for sidecars; `None` runs sidecars as processes.
    pub containers: Option<Containers>,
    /// A file of secrets for agents; it must be private.
    pub secrets: Option<PathBuf>,
    /// Names of further variables that sidecars inherit.
    pub pass_env: Vec<String>,
    /// Paths that agents must not access besides the data folder and the file of secrets.
    pub hidden: Vec<PathBuf>,
    /// Whether the kernel confines agents; see [`WorkerConfig::confine_agents`].
    pub confine_agents: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum RemoteWorkerError {
    /// The data folder or the sidecar cannot be used.
    #[error("the worker cannot start: {0}")]
    Start(#[from] crate::StartError),
    /// The control plane refused the registration.
    #[error(transparent)]
    Refused(#[from] ApiError),
}

pub struct RemoteWorker {
    client: Client,
    worker: Arc<Worker>,
    heartbeats: Heartbeats,
    tasks: JoinSet<()>,
}

impl RemoteWorker {
    /// Adopts the sidecars of an earlier start, registers, and processes assignments. Waits while the control plane is
    /// unreachable.
    pub async fn start(client: Client, settings: RemoteWorkerSettings) -> Result<Self, RemoteWorkerError> {
        let control = Arc::new(ControlPlane::new(client.clone(), settings.id.clone()));
        let ports = Ports { claims: Arc::clone(&control) as _, events: control as _ };
        let mut config = WorkerConfig::new(&settings.data, &settings.sidecar);
        config.environment = config.environment.passing(&settings.pass_env);
        config.containers = settings.containers.clone();
        config.hidden.clone_from(&settings.hidden);
        config.confine_agents = settings.confine_agents;
        config.secrets = WorkerSecrets { file: settings.secrets.clone(), several_owners: settings.shared };
        config.workspace = workspace::detected(
            settings.capabilities.iter().copied(),
            settings.containers.is_some(),
            settings.shared,
        );
        let worker = Arc::new(Worker::start(config, ports).await?);
        let report = Heartbeat {
            labels: settings.labels,
            capacity: settings.capacity,
            shared: settings.shared,
            ..Heartbeat::default()
        };
        let mut heartbeats =
            Heartbeats::new(client.clone(), settings.id.clone(), Arc::clone(&worker), report);
        heartbeats.register().await?;

        let mut tasks = JoinSet::new();
        let background = heartbeats.clone();
        tasks.spawn(async move { background.run().await });
        tasks.spawn(assignments::process_assignments(
            client.clone(),
            settings.id,
            Arc::clone(&worker),
            heartbeats.access(),
            heartbeats.recent(),
        ));
        Ok(Self { client, worker, heartbeats, tasks })
    }

    /// Runs until `shutdown` is ready, then accepts no more assignments and ends. The sidecars continue and are adopted at
    /// the next start, unless the worker is `ephemeral`: then they end, and the worker is removed.
    pub async fn run_until(mut self, shutdown: impl Future<Output = ()> + Send, ephemeral: bool) {
        shutdown.await;
        self.tasks.shutdown().await;
        self.heartbeats.send_last().await;
        if ephemeral {
            self.worker.stop_all(GRACE).await;
            if let Err(error) = self.client.remove_worker(self.heartbeats.id(), false).await {
                tracing::warn!(%error, "failed to remove the worker");
            }
        }
    }
}
