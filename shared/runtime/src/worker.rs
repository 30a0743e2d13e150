//! The worker: sidecars as processes on this machine.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use nix::fcntl::Flock;
use nix::sys::signal::Signal;
use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_wire::launch::LaunchRequest;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::claims::RunClaims;
use crate::config::WorkerConfig;
use crate::events::RunEvents;
use crate::port::{AgentRuntime, LaunchError, ProcessState, RuntimeCapabilities, StopError, StopMode};
use crate::registry::{Phase, Registry, Run, Signalled};
use crate::run_dir::{RunDir, private_folder};
use crate::watch::see_to_the_end;
use crate::{adoption, containers, process, retention};

/// How long after the last kill the ends of runs may take to be reported, over the time for draining.
const REPORTING: Duration = Duration::from_secs(5);

/// What the worker needs of its server.
#[derive(Clone)]
pub struct Ports {
    /// Where runs are claimed.
    pub claims: Arc<dyn RunClaims>,
    /// Where their ends are told.
    pub events: Arc<dyn RunEvents>,
}

/// Why a worker could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data folder cannot be used.
    #[error("the data folder {path} cannot be used")]
    Data {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Another worker uses the data folder.
    #[error("another worker uses the data folder {path}")]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// The engine of containers is not there, or does not work.
    #[error("{engine} does not answer; containers need it")]
    Engine {
        /// Its program.
        engine: PathBuf,
    },
    /// The sidecar program is not there, or is not a program.
    #[error("{path} is not a program that can be run")]
    Sidecar {
        /// The program.
        path: PathBuf,
    },
}

/// Runs sidecars as processes on this machine, and watches each to its reported end.
///
/// Dropping a worker ends the watching and nothing else: sidecars run on, and the next worker on the same data
/// folder adopts them, as it does after the server was killed. [`Worker::stop_all`] is for servers that are to
/// leave nothing behind.
pub struct Worker {
    inner: Arc<Inner>,
    tasks: Mutex<JoinSet<()>>,
}

pub(crate) struct Inner {
    pub(crate) config: WorkerConfig,
    pub(crate) ports: Ports,
    pub(crate) registry: Registry,
    pub(crate) runs: PathBuf,
    pub(crate) sessions: PathBuf,
    pub(crate) stopping: AtomicBool,
    /// Held as long as anything of this worker is at work: two would watch and report the same runs.
    _owner: Flock<File>,
}

impl Worker {
    /// Starts a worker on a data folder, and adopts the runs that it finds there: those that live are watched, those
    /// that ended meanwhile are drained and reported, those that never started are reported as such.
    pub async fn start(mut config: WorkerConfig, ports: Ports) -> Result<Self, StartError> {
        let unusable = |source| StartError::Data { path: config.data.clone(), source };
        private_folder(&config.data).map_err(unusable)?;
        // Sidecars run elsewhere: what they are told must not depend on where this process stands.
        let data = config.data.canonicalize().map_err(unusable)?;
        let (runs, sessions) = (data.join("runs"), data.join("sessions"));
        private_folder(&runs).map_err(unusable)?;
        private_folder(&sessions).map_err(unusable)?;
        config.sidecar = config
            .sidecar
            .canonicalize()
            .ok()
            .filter(|path| process::is_program(path))
            .ok_or_else(|| StartError::Sidecar { path: config.sidecar.clone() })?;
        if let Some(containers) = &config.containers
            && !containers.answers().await
        {
            return Err(StartError::Engine { engine: containers.engine.clone() });
        }
        let owner = adoption::own(&data).await?;
        retention::sweep_leftovers(&runs).map_err(unusable)?;
        retention::prune(&runs, config.retention).map_err(unusable)?;
        let found = adoption::find(&runs).map_err(unusable)?;

        config.data = data;
        let inner = Arc::new(Inner {
            config,
            ports,
            registry: Registry::new(),
            runs,
            sessions,
            stopping: AtomicBool::new(false),
            _owner: owner,
        });
        let mut tasks = JoinSet::new();
        for (request, exit) in found {
            inner.adopt(&request, exit, &mut tasks);
        }
        Ok(Self { inner, tasks: Mutex::new(tasks) })
    }

    /// The runs in hand: each with its session, and whether its process lives.
    pub fn runs(&self) -> Vec<(AgentSessionId, RunId, ProcessState)> {
        let state = |run: &Run| match *run.phase() {
            Phase::Over => ProcessState::Dead,
            Phase::Preparing { .. } | Phase::Child(_) | Phase::Adopted => ProcessState::Alive,
        };
        self.inner.registry.all().iter().map(|run| (run.session, run.id, state(run))).collect()
    }

    /// Ends all sidecars and starts no more: asks them to, waits as long as `grace`, kills what still runs, and
    /// waits a bounded time until their ends are reported. What is not reported by then, the next worker reports.
    pub async fn stop_all(&self, grace: Duration) {
        let registry = &self.inner.registry;
        self.inner.stopping.store(true, Ordering::SeqCst);
        self.signal_all(Signal::SIGTERM).await;
        let gone = |runs: &[Arc<Run>]| runs.iter().all(|run| matches!(*run.phase(), Phase::Over));
        if timeout(grace, registry.until(gone)).await.is_err() {
            self.signal_all(Signal::SIGKILL).await;
        }
        let limit = self.inner.config.timing.drain_limit + REPORTING;
        if timeout(limit, registry.until(<[_]>::is_empty)).await.is_err() {
            tracing::warn!(runs = registry.all().len(), "not every end of a run was reported");
        }
    }

    async fn signal_all(&self, signal: Signal) {
        let one = async |run: Arc<Run>| {
            if let Err(error) = signal_run(&run, signal).await {
                tracing::error!(run = %run.id, %error, %signal, "a run cannot be signalled");
            }
        };
        for run in self.inner.registry.all() {
            one(run).await;
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(ended) = tasks.try_join_next() {
            if let Err(error) = ended {
                tracing::error!(%error, "the watch of a run broke off");
            }
        }
        tasks.spawn(task);
    }
}

/// Signals a run where it is: its processes, or its container.
async fn signal_run(run: &Run, signal: Signal) -> io::Result<Signalled> {
    let Some(engine) = run.engine() else { return run.signal(signal) };
    let is_over = |run: &Run| matches!(*run.phase(), Phase::Over);
    if run.stop_in_preparation() || is_over(run) || containers::signal(&engine, run.id, signal).await? {
        return Ok(Signalled::Done);
    }
    // It may be about to begin; whoever wants it stopped asks again.
    Ok(if is_over(run) { Signalled::Done } else { Signalled::Unverified })
}

#[async_trait]
impl AgentRuntime for Worker {
    async fn launch(&self, request: LaunchRequest) -> Result<(), LaunchError> {
        let inner = Arc::clone(&self.inner);
        let (tell, told) = oneshot::channel();
        // In a task of its own: a caller that stops waiting must not leave half a launch behind.
        self.spawn(async move {
            match inner.begin(&request).await {
                Ok(begun) => {
                    let _ = tell.send(Ok(()));
                    if let Some((run, beginning)) = begun {
                        see_to_the_end(&inner, &run, beginning).await;
                    }
                }
                Err(error) => _ = tell.send(Err(error)),
            }
        });
        told.await.unwrap_or(Err(LaunchError::Stopping))
    }

    async fn stop(&self, session: AgentSessionId, run: RunId, mode: StopMode) -> Result<(), StopError> {
        let Some(known) = self.inner.registry.get(run).filter(|known| known.session == session) else {
            return Ok(());
        };
        let signal = match mode {
            StopMode::Terminate => Signal::SIGTERM,
            StopMode::Kill => Signal::SIGKILL,
        };
        match signal_run(&known, signal).await {
            Ok(Signalled::Done) => Ok(()),
            Ok(Signalled::Unverified) => Err(StopError::Unverified { run }),
            Err(source) => Err(StopError::Signal { run, source }),
        }
    }

    async fn state(&self, run: RunId) -> ProcessState {
        match self.inner.registry.get(run) {
            Some(known) if matches!(*known.phase(), Phase::Over) => ProcessState::Dead,
            Some(_) => ProcessState::Alive,
            None if RunDir::of(&self.inner.runs, run).is_finished() => ProcessState::Dead,
            None => ProcessState::Unknown,
        }
    }

    fn capabilities(&self) -> RuntimeCapabilities {
        RuntimeCapabilities { durable_workspace: true, placement: self.inner.config.placement.clone() }
    }
}
