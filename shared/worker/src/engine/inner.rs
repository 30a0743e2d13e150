use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::fcntl::Flock;
use pilothouse_domain::AgentSessionId;
use pilothouse_runtime::RunEvents;

use super::claims::RunClaims;
use super::config::WorkerConfig;
use super::registry::Registry;

pub(crate) struct Inner {
    pub(crate) config: WorkerConfig,
    pub(crate) ports: Ports,
    pub(crate) registry: Registry,
    pub(crate) runs: PathBuf,
    pub(crate) sessions: PathBuf,
    pub(crate) stopping: AtomicBool,
    /// Held while this worker runs: two workers would supervise and report the same runs.
    pub(crate) _owner: Flock<File>,
}

/// The control plane of a worker.
#[derive(Clone)]
pub struct Ports {
    pub claims: Arc<dyn RunClaims>,
    pub events: Arc<dyn RunEvents>,
}

impl Inner {
    /// The folder of a session, which outlives its runs.
    pub(crate) fn session_home(&self, session: AgentSessionId) -> PathBuf {
        self.sessions.join(session.to_string())
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the data folder {path} cannot be used")]
    Data {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the path {path} cannot be made absolute")]
    Path {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("another worker uses the data folder {path}")]
    InUse { path: PathBuf },
    #[error("{engine} does not answer; containers need it")]
    Engine { engine: PathBuf },
    #[error("{path} is not a program that can be run")]
    Sidecar { path: PathBuf },
}
