//! The settings of a worker.

use std::path::PathBuf;
use std::time::Duration;

use pilothouse_wire::launch::LaunchConfinement;

use super::environment::Environment;

/// The settings of a worker.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// The data folder: runs are kept in `runs/`, session homes in `sessions/`.
    pub data: PathBuf,
    /// The program `pilothouse-sidecar`.
    pub sidecar: PathBuf,
    /// Placement of the runs (decision 23).
    pub placement: String,
    /// The whole environment of a sidecar.
    pub environment: Environment,
    /// Containers for sidecars; `None` runs sidecars as processes.
    pub containers: Option<Containers>,
    /// Paths that agents must not access besides the data folder; `None` disables confinement. Ignored for containers.
    pub confinement: Option<Vec<PathBuf>>,
    /// Timeouts and intervals.
    pub timing: Timing,
    /// Retention of finished runs.
    pub retention: Retention,
}

impl WorkerConfig {
    /// Creates settings with default values and the placement `local`.
    pub fn new(data: impl Into<PathBuf>, sidecar: impl Into<PathBuf>) -> Self {
        Self {
            data: data.into(),
            sidecar: sidecar.into(),
            placement: "local".to_owned(),
            environment: Environment::inherited(),
            containers: None,
            confinement: None,
            timing: Timing::default(),
            retention: Retention::default(),
        }
    }

    /// Confinement of the agents. Agents in containers need none.
    pub(crate) fn launch_confinement(&self) -> Option<LaunchConfinement> {
        let others = self.confinement.as_ref().filter(|_| self.containers.is_none())?;
        Some(LaunchConfinement { hidden: std::iter::once(&self.data).chain(others).cloned().collect() })
    }
}

/// Timeouts and intervals.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Interval between two checks of a lock.
    pub poll_interval: Duration,
    /// How long an adopted sidecar may take to lock its run: the earlier server may have been killed while
    /// it started the sidecar.
    pub start_grace: Duration,
    /// How long a launch waits for processes of an earlier run of its session.
    pub session_lock: Duration,
    /// How long guards may take to end leftover processes before the worker kills them.
    pub survivor_grace: Duration,
    /// Time limit of draining.
    pub drain_timeout: Duration,
    /// Wait before the first retry; it doubles each time.
    pub first_retry_delay: Duration,
    /// Longest wait before a retry.
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

/// Settings of containers for sidecars.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Containers {
    /// The engine: `docker`, `podman`.
    pub engine: PathBuf,
    /// The image. Its entry point is `pilothouse-sidecar`.
    pub image: String,
    /// Additional options of the engine's `run`, one argument each: networks, volumes, limits.
    pub options: Vec<String>,
}
