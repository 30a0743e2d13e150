use std::path::{Path, PathBuf};
use std::time::Duration;

use pilothouse_domain::project_agent::WorkspaceOffer;
use pilothouse_wire::launch::LaunchConfinement;

use super::environment::Environment;
use super::secrets::WorkerSecrets;
use super::workspace;

#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// Runs are kept in `runs/`, session homes in `sessions/`.
    pub data: PathBuf,
    pub sidecar: PathBuf,
    /// Decision 23.
    pub placement: String,
    /// The whole environment of a sidecar.
    pub environment: Environment,
    /// Secrets for agents whose briefs name them.
    pub secrets: WorkerSecrets,
    /// The workspace that this worker offers to agents, besides its free disk.
    pub workspace: WorkspaceOffer,
    /// Containers for sidecars; `None` runs sidecars as processes.
    pub containers: Option<Containers>,
    /// Paths that agents must not access besides the data folder and the file of secrets. Containers are not given a working
    /// directory that contains one or is inside one, whether or not agents are confined.
    pub hidden: Vec<PathBuf>,
    /// Whether the kernel confines agents. In containers it hides the keys of the run only, and agents start without that as
    /// well.
    pub confine_agents: bool,
    pub timing: Timing,
    pub retention: Retention,
}

impl WorkerConfig {
    /// Default values with the placement `local`.
    pub fn new(data: impl Into<PathBuf>, sidecar: impl Into<PathBuf>) -> Self {
        Self {
            data: data.into(),
            sidecar: sidecar.into(),
            placement: "local".to_owned(),
            environment: Environment::inherited(),
            secrets: WorkerSecrets::default(),
            workspace: workspace::detected([], false, false),
            containers: None,
            hidden: Vec::new(),
            confine_agents: false,
            timing: Timing::default(),
            retention: Retention::default(),
        }
    }

    /// All paths that agents must not access.
    pub(crate) fn hidden_paths(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(&self.data).chain(&self.hidden).chain(&self.secrets.file).map(PathBuf::as_path)
    }

    /// The container isolates an agent in a container.
    pub(crate) fn launch_confinement(&self) -> Option<LaunchConfinement> {
        let confines = self.confine_agents && self.containers.is_none();
        confines.then(|| LaunchConfinement { hidden: self.hidden_paths().map(Path::to_owned).collect() })
    }

    /// What the sidecar in a container hides from its agent where the kernel can: the keys of the run.
    pub(crate) fn hidden_in_container(&self, run_dir: &Path) -> Vec<PathBuf> {
        let hides = self.confine_agents && self.containers.is_some();
        hides.then(|| run_dir.to_owned()).into_iter().collect()
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Timing {
    pub poll_interval: Duration,
    /// How long an adopted sidecar may take to lock its run: the earlier server may have been killed while
    /// it started the sidecar.
    pub start_grace: Duration,
    /// How long a launch waits for processes of an earlier run of its session.
    pub session_lock: Duration,
    /// How long guards may take to end leftover processes before the worker kills them.
    pub survivor_grace: Duration,
    pub drain_timeout: Duration,
    /// Doubles after each retry.
    pub first_retry_delay: Duration,
    pub max_retry_delay: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            poll_interval: Duration::from_millis(500),
            start_grace: Duration::from_secs(5),
            session_lock: Duration::from_secs(5),
            survivor_grace: Duration::from_secs(10),
            drain_timeout: Duration::from_secs(30),
            first_retry_delay: Duration::from_millis(200),
            max_retry_delay: Duration::from_secs(10),
        }
    }
}

/// How long the directories of finished runs are kept. Directories of unfinished runs are never removed.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// Longest time after the exit was reported.
    pub age: Duration,
    /// Most directories; the oldest are removed first.
    pub count: usize,
}

impl Default for Retention {
    /// 7 days, 500 runs.
    fn default() -> Self {
        Self { age: Duration::from_hours(7 * 24), count: 500 }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Containers {
    /// The engine: `docker`, `podman`.
    pub engine: PathBuf,
    /// The image. Its entry point is `pilothouse-sidecar`.
    pub image: String,
    /// Additional options of the engine's `run`, one argument each: networks, volumes, limits.
    pub options: Vec<String>,
}
