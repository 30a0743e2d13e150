use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use nix::sys::signal::Signal;
use pilothouse_domain::project_agent::WorkspaceOffer;
use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_runtime::{AgentRuntime, LaunchError, ProcessState, RuntimeCapabilities, StopError, StopMode};
use pilothouse_wire::launch::LaunchRequest;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::config::WorkerConfig;
use super::inner::Inner;
pub use super::inner::{Ports, StartError};
use super::registry::{Registry, Run, RunPhase, SignalOutcome};
use super::run_dir::{ENGINES, RunDir, create_private_folder};
use super::supervisor::supervise;
use super::workspace::{free_disk, is_program};
use super::{adoption, containers, retention};

/// The engine of containers that an earlier version started, if this worker has no containers.
const DEFAULT_ENGINE: &str = "docker";
/// Time to report exits after draining, when the worker stops all runs.
const REPORTING: Duration = Duration::from_secs(5);
const MEBIBYTE: u64 = 1024 * 1024;

fn absolute(path: &Path) -> Result<PathBuf, StartError> {
    std::path::absolute(path).map_err(|source| StartError::Path { path: path.to_owned(), source })
}

/// Runs sidecars on this machine, and supervises each until its exit is reported.
///
/// Dropping a worker ends only the supervision: sidecars continue, and the next worker on the same data
/// folder adopts them, as it does after the server was killed. [`Worker::stop_all`] ends all
/// sidecars.
pub struct Worker {
    inner: Arc<Inner>,
    tasks: Mutex<JoinSet<()>>,
}

impl Worker {
    /// Starts a worker on a data folder and adopts the runs in it: it supervises live ones, drains and reports
    /// ended ones, and starts those that were prepared and never started.
    pub async fn start(mut config: WorkerConfig, ports: Ports) -> Result<Self, StartError> {
        let unusable = |source| StartError::Data { path: config.data.clone(), source };
        create_private_folder(&config.data).map_err(unusable)?;
        // Sidecars have another working directory, so their paths must be absolute.
        let data = config.data.canonicalize().map_err(unusable)?;
        let (runs, sessions) = (data.join("runs"), data.join("sessions"));
        create_private_folder(&runs).map_err(unusable)?;
        create_private_folder(&sessions).map_err(unusable)?;
        create_private_folder(&data.join(ENGINES)).map_err(unusable)?;
        config.sidecar = config
            .sidecar
            .canonicalize()
            .ok()
            // Checked here instead of at the first launch.
            .filter(|path| is_program(path))
            .ok_or_else(|| StartError::Sidecar { path: config.sidecar.clone() })?;
        for path in config.secrets.file.iter_mut().chain(&mut config.hidden) {
            *path = absolute(path)?;
        }
        if let Some(containers) = &config.containers
            && !containers.is_available().await
        {
            return Err(StartError::Engine { engine: containers.engine.clone() });
        }
        let owner = adoption::lock_data_folder(&data).await?;
        retention::remove_temporary_directories(&runs).map_err(unusable)?;
        retention::prune(&runs, config.retention).map_err(unusable)?;
        let engine = config.containers.as_ref().map_or(Path::new(DEFAULT_ENGINE), |of| of.engine.as_path());
        let found = adoption::find_unfinished_runs(&runs, engine).map_err(unusable)?;

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

    /// The active runs with their sessions and process states.
    pub fn runs(&self) -> Vec<(AgentSessionId, RunId, ProcessState)> {
        let state = |run: &Run| match *run.phase() {
            RunPhase::Ended => ProcessState::Dead,
            RunPhase::Preparing { .. } | RunPhase::Child(_) | RunPhase::Adopted => ProcessState::Alive,
        };
        self.inner.registry.all().iter().map(|run| (run.session, run.id, state(run))).collect()
    }

    /// Kills those of these runs that are active, with everything that they started, and returns when they have ended: the control
    /// plane has declared them lost, and their exits have no effect (decision 13).
    pub async fn kill_lost_runs(&self, runs: &[RunId]) {
        let lost: Vec<_> = runs.iter().filter_map(|run| self.inner.registry.get(*run)).collect();
        for run in &lost {
            tracing::warn!(run = %run.id, session = %run.session, "killing a run that was declared lost");
            while !matches!(*run.phase(), RunPhase::Ended) {
                match signal_run(run, Signal::SIGKILL).await {
                    Ok(SignalOutcome::Done) => break,
                    Ok(SignalOutcome::Unverified) => {}
                    Err(error) => tracing::error!(run = %run.id, %error, "failed to kill a lost run"),
                }
                sleep(self.inner.config.timing.poll_interval).await;
            }
        }
        // A run whose launch was given up leaves the registry without a process.
        let is_active = |run: &Arc<Run>, active: &[Arc<Run>]| {
            !matches!(*run.phase(), RunPhase::Ended) && active.iter().any(|other| Arc::ptr_eq(other, run))
        };
        let over = |active: &[Arc<Run>]| !lost.iter().any(|run| is_active(run, active));
        self.inner.registry.wait_until(over).await;
    }

    /// Ends all sidecars and starts no more: terminates them, waits for `grace`, kills the rest, and
    /// waits a bounded time until their exits are reported. The next worker reports the remaining ones.
    pub async fn stop_all(&self, grace: Duration) {
        let registry = &self.inner.registry;
        self.inner.stopping.store(true, Ordering::SeqCst);
        self.signal_all(Signal::SIGTERM).await;
        let gone = |runs: &[Arc<Run>]| runs.iter().all(|run| matches!(*run.phase(), RunPhase::Ended));
        if timeout(grace, registry.wait_until(gone)).await.is_err() {
            self.signal_all(Signal::SIGKILL).await;
        }
        let limit = self.inner.config.timing.drain_timeout + REPORTING;
        if timeout(limit, registry.wait_until(<[_]>::is_empty)).await.is_err() {
            tracing::warn!(runs = registry.all().len(), "some exits were not reported");
        }
    }

    async fn signal_all(&self, signal: Signal) {
        let one = async |run: Arc<Run>| {
            if let Err(error) = signal_run(&run, signal).await {
                tracing::error!(run = %run.id, %error, %signal, "failed to signal a run");
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
                tracing::error!(%error, "the supervision of a run failed");
            }
        }
        tasks.spawn(task);
    }
}

async fn signal_run(run: &Run, signal: Signal) -> io::Result<SignalOutcome> {
    let Some(engine) = run.engine() else { return run.signal(signal) };
    let is_over = |run: &Run| matches!(*run.phase(), RunPhase::Ended);
    if run.stop_in_preparation() || is_over(run) || containers::signal(&engine, run.id, signal).await? {
        return Ok(SignalOutcome::Done);
    }
    // The container may be about to start; the caller retries.
    Ok(if is_over(run) { SignalOutcome::Done } else { SignalOutcome::Unverified })
}

#[async_trait]
impl AgentRuntime for Worker {
    async fn launch(&self, request: LaunchRequest) -> Result<(), LaunchError> {
        let inner = Arc::clone(&self.inner);
        let (sender, launched) = oneshot::channel();
        // A separate task: a caller that stops waiting must not leave half a launch behind.
        self.spawn(async move {
            match inner.launch_run(&request).await {
                Ok(begun) => {
                    let _ = sender.send(Ok(()));
                    if let Some((run, beginning)) = begun {
                        supervise(&inner, &run, beginning).await;
                    }
                }
                Err(error) => _ = sender.send(Err(error)),
            }
        });
        launched.await.unwrap_or(Err(LaunchError::Stopping))
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
            Ok(SignalOutcome::Done) => Ok(()),
            Ok(SignalOutcome::Unverified) => Err(StopError::Unverified { run }),
            Err(source) => Err(StopError::Signal { run, source }),
        }
    }

    async fn state(&self, run: RunId) -> ProcessState {
        match self.inner.registry.get(run) {
            Some(known) if matches!(*known.phase(), RunPhase::Ended) => ProcessState::Dead,
            Some(_) => ProcessState::Alive,
            None if RunDir::of(&self.inner.runs, run).is_finished() => ProcessState::Dead,
            // Invalid: its process is not supervised.
            None if RunDir::of(&self.inner.runs, run).exists() => ProcessState::Unreachable,
            None => ProcessState::Unknown,
        }
    }

    /// The configured offer with the free disk of the data folder at this time.
    fn workspace(&self) -> Option<WorkspaceOffer> {
        let WorkerConfig { data, workspace, .. } = &self.inner.config;
        let free_disk_mb = free_disk(data).map(|bytes| bytes / MEBIBYTE);
        Some(WorkspaceOffer { free_disk_mb, ..workspace.clone() })
    }

    fn capabilities(&self) -> RuntimeCapabilities {
        let placement = self.inner.config.placement.clone();
        RuntimeCapabilities { durable_workspace: true, lease: None, placement }
    }
}
