//! A worker that stands elsewhere: it takes orders from its control plane, and runs sidecars on this machine.
//!
//! | file | what it holds |
//! |---|---|
//! | `ports` | claims and ends, over the API |
//! | `beats` | heartbeats, and the way to the queue that they bring |
//! | `orders` | taking orders and carrying them out |
//! | `source` | where orders come from: SQS, or the API |
//! | `name` | the worker's name in its data folder |
//!
//! What runs is the same [`pilothouse_runtime::Worker`] that the embedded server has inside: it may be killed at any time,
//! and its next start takes over the sidecars that went on.

mod beats;
mod name;
mod orders;
mod ports;
mod source;

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_runtime::{Containers, Ports, Worker, WorkerConfig};
use pilothouse_wire::worker::{Heartbeat, WorkerId};
use tokio::task::JoinSet;

use crate::client::{ApiError, Client};
use beats::Beats;
use ports::ControlPlane;

pub use name::{NameError, name_of};

/// How long sidecars may take to end when the worker ends them.
const GRACE: Duration = Duration::from_secs(10);

/// What a worker is.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Its name among its owner's.
    pub id: WorkerId,
    /// What it has.
    pub labels: BTreeMap<String, String>,
    /// How many runs it takes at once.
    pub capacity: u32,
    /// Whether it serves everybody.
    pub shared: bool,
    /// Its own data folder.
    pub data: PathBuf,
    /// The sidecar's program.
    pub sidecar: PathBuf,
    /// The containers that sidecars run in; none: they are processes.
    pub containers: Option<Containers>,
}

/// Why a worker did not start.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The data folder or the sidecar cannot be used.
    #[error("the worker cannot start: {0}")]
    Start(#[from] pilothouse_runtime::StartError),
    /// The control plane refuses it.
    #[error(transparent)]
    Refused(#[from] ApiError),
}

/// A worker that is registered and works.
pub struct RemoteWorker {
    client: Client,
    worker: Arc<Worker>,
    beats: Beats,
    tasks: JoinSet<()>,
}

impl RemoteWorker {
    /// Takes over the sidecars of an earlier start, registers, and begins to work. Waits for a control plane that cannot
    /// be reached.
    pub async fn start(client: Client, settings: Settings) -> Result<Self, WorkerError> {
        let control = Arc::new(ControlPlane::new(client.clone(), settings.id.clone()));
        let ports = Ports { claims: Arc::clone(&control) as _, events: control as _ };
        let mut config = WorkerConfig::new(&settings.data, &settings.sidecar);
        config.containers = settings.containers.clone();
        let worker = Arc::new(Worker::start(config, ports).await?);
        let said = Heartbeat {
            labels: settings.labels,
            capacity: settings.capacity,
            shared: settings.shared,
            ..Heartbeat::default()
        };
        let mut beats = Beats::new(client.clone(), settings.id.clone(), Arc::clone(&worker), said);
        beats.register().await?;

        let mut tasks = JoinSet::new();
        let going_on = beats.clone();
        tasks.spawn(async move { going_on.go_on().await });
        tasks.spawn(orders::carry_out(client.clone(), settings.id, Arc::clone(&worker), beats.access()));
        Ok(Self { client, worker, beats, tasks })
    }

    /// Works until `shutdown` is ready, then takes nothing more and ends. The sidecars go on, and are taken over at the
    /// next start; unless the worker is `ephemeral`, which leaves nothing behind.
    pub async fn run_until(mut self, shutdown: impl Future<Output = ()> + Send, ephemeral: bool) {
        shutdown.await;
        self.tasks.shutdown().await;
        self.beats.farewell().await;
        if ephemeral {
            self.worker.stop_all(GRACE).await;
            if let Err(error) = self.client.remove_worker(self.beats.id()).await {
                tracing::warn!(%error, "the worker is not forgotten");
            }
        }
    }
}
