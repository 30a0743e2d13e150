//! The settings of a worker.

use std::path::PathBuf;
use std::time::Duration;

use crate::containers::Containers;
use crate::environment::Environment;

/// The settings of a worker.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// The data folder; runs are kept under `runs/`, what outlives them under `sessions/`.
    pub data: PathBuf,
    /// The `pilothouse-sidecar` program.
    pub sidecar: PathBuf,
    /// Where this worker is (ruling 23).
    pub placement: String,
    /// All that sidecars see of an environment.
    pub environment: Environment,
    /// The containers that sidecars run in; none: they are processes of this machine.
    pub containers: Option<Containers>,
    /// How long the worker waits for what.
    pub timing: Timing,
    /// How long the directories of finished runs are kept.
    pub retention: Retention,
}

impl WorkerConfig {
    /// Settings with the defaults of the rulings, and placement `local`.
    pub fn new(data: impl Into<PathBuf>, sidecar: impl Into<PathBuf>) -> Self {
        Self {
            data: data.into(),
            sidecar: sidecar.into(),
            placement: "local".to_owned(),
            environment: Environment::chosen(),
            containers: None,
            timing: Timing::default(),
            retention: Retention::default(),
        }
    }
}

/// How long the worker waits for what.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Time between two looks at the lock of an adopted run.
    pub poll: Duration,
    /// How long a sidecar found without a sign of life may take to show one: the server may have been killed at
    /// the moment it started it.
    pub start_grace: Duration,
    /// How long draining may take before it is killed.
    pub drain_limit: Duration,
    /// The wait before a report is tried again; it doubles each time.
    pub first_retry: Duration,
    /// The longest wait before a report is tried again.
    pub longest_retry: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            poll: Duration::from_millis(500),
            start_grace: Duration::from_secs(5),
            drain_limit: Duration::from_secs(30),
            first_retry: Duration::from_millis(200),
            longest_retry: Duration::from_secs(10),
        }
    }
}

/// How long the directories of finished runs are kept. Those of unfinished runs are never removed.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// The longest time after the end was reported.
    pub age: Duration,
    /// The most directories; the oldest go first.
    pub count: usize,
}

impl Default for Retention {
    /// 7 days, 500 runs.
    fn default() -> Self {
        Self { age: Duration::from_hours(7 * 24), count: 500 }
    }
}
