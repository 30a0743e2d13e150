//! Launches a run: claim, prepare, start.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pilothouse_domain::AgentSessionId;
use pilothouse_runtime::LaunchError;
use pilothouse_wire::launch::LaunchRequest;
use pilothouse_wire::secrets::VARIABLE;

use super::claims::ClaimOutcome;
use super::inner::Inner;
use super::process::ChildProcess;
use super::registry::{Reservation, Run, RunPhase};
use super::run_dir::{RunDir, create_private_folder};
use super::supervisor::RunStart;
use super::{exit, process, session_lock};

impl Inner {
    /// `None` if there is nothing to start.
    pub(crate) async fn launch_run(
        self: &Arc<Self>,
        request: &LaunchRequest,
    ) -> Result<Option<(Arc<Run>, RunStart)>, LaunchError> {
        let mut changes = self.registry.changes();
        let run = loop {
            if self.stopping.load(Ordering::SeqCst) {
                return Err(LaunchError::Stopping);
            }
            let dir = RunDir::of(&self.runs, request.run_id);
            let preparing = RunPhase::Preparing { stop: false };
            match self.registry.reserve(request.session_id, request.run_id, dir, preparing) {
                Reservation::New(run) => break run,
                Reservation::Known => return Ok(None),
                // If that launch fails, this one tries.
                Reservation::Preparing => _ = changes.changed().await,
            }
        };
        match self.prepare(request, &run).await {
            Ok(Some(lock)) => Ok(Some((Arc::clone(&run), self.start_process(request, &run, lock)))),
            Ok(None) => {
                self.registry.remove(run.id);
                Ok(None)
            }
            Err(error) => {
                self.registry.remove(run.id);
                Err(error)
            }
        }
    }

    /// Claims a run under the lock of its session and creates its folders. Returns the lock if the run may start.
    async fn prepare(
        self: &Arc<Self>,
        request: &LaunchRequest,
        run: &Arc<Run>,
    ) -> Result<Option<File>, LaunchError> {
        if run.dir.exists() {
            // Finished, or invalid. A run directory is used once.
            return Ok(None);
        }
        let home = self.session_home(request.session_id);
        let lock = self.lock_session(request.session_id).await?;
        let access = match self.ports.claims.claim(request).await.map_err(LaunchError::Claim)? {
            ClaimOutcome::Claimed(access) => access,
            outcome @ (ClaimOutcome::HeldByOther | ClaimOutcome::RunIsOver) => {
                tracing::info!(run = %run.id, ?outcome, "skipping a launch: the run is not ours to start");
                return Ok(None);
            }
        };
        let confinement = self.config.launch_confinement();
        let hidden = self.config.hidden_in_container(run.dir.path());
        let (run, request) = (Arc::clone(run), request.clone());
        let made = tokio::task::spawn_blocking(move || {
            let mut launch = access.launch(request, home.to_string_lossy().into_owned());
            launch.confinement = confinement;
            launch.hidden_where_supported = hidden;
            run.dir.create(&launch)
        });
        made.await.map_err(io::Error::other).and_then(|made| made).map_err(LaunchError::Prepare)?;
        Ok(Some(lock))
    }

    /// Acquires the lock of a session for the processes of a run.
    async fn lock_session(&self, session: AgentSessionId) -> Result<File, LaunchError> {
        let (home, timing) = (self.session_home(session), &self.config.timing);
        create_private_folder(&home).map_err(LaunchError::Prepare)?;
        let lock =
            session_lock::acquire(&session_lock::path(&home), timing.session_lock, timing.poll_interval)
                .await;
        lock.map_err(LaunchError::Prepare)?.ok_or(LaunchError::SessionBusy { session })
    }

    /// Starts a run that an earlier server prepared and did not start. The worker claims the run again, and the
    /// first sidecar that holds the lock of the run directory runs it (decision 7).
    pub(crate) async fn start_prepared(self: &Arc<Self>, run: &Arc<Run>) -> Result<RunStart, LaunchError> {
        let invalid = |error| LaunchError::Prepare(io::Error::other(error));
        let request = run.dir.request(run.id).map_err(invalid)?;
        let lock = self.lock_session(request.session_id).await?;
        match self.ports.claims.claim(&request).await.map_err(LaunchError::Claim)? {
            ClaimOutcome::Claimed(_) => {
                tracing::info!(run = %run.id, session = %run.session, "starting a run that was prepared and never started");
                Ok(self.start_process(&request, run, lock))
            }
            ClaimOutcome::HeldByOther | ClaimOutcome::RunIsOver => {
                let _one_at_a_time = run.phase();
                let closed = run.dir.close_unstarted().map_err(LaunchError::Prepare)?;
                Ok(closed.map_or(RunStart::Adopted, RunStart::Ended))
            }
        }
    }

    /// Starts the process of a claimed and prepared run. From here on its exit is always reported, even if the
    /// process cannot start. The process gets `lock` as standard input, so that the lock is always held.
    fn start_process(&self, request: &LaunchRequest, run: &Arc<Run>, lock: File) -> RunStart {
        let mut phase = run.phase();
        let is_stopped =
            matches!(*phase, RunPhase::Preparing { stop: true }) || self.stopping.load(Ordering::SeqCst);
        // A stop request may have closed the prepared run.
        let beginning = if let Ok(Some(exit)) = run.dir.exit() {
            RunStart::Ended(exit)
        } else if is_stopped {
            RunStart::Ended(exit::without_process("the run was stopped before it started".to_owned()))
        } else {
            let command = self.config.secrets.of_launch(request).and_then(|secrets| {
                let mut command = match &self.config.containers {
                    None => process::command(&self.config, "run", &run.dir)?,
                    Some(containers) => {
                        let home = self.session_home(run.session);
                        containers.command(&self.config, request, &home, &run.dir)?
                    }
                };
                if let Some(secrets) = secrets {
                    command.env(VARIABLE, secrets);
                }
                Ok(command)
            });
            match command.and_then(|mut command| ChildProcess::spawn(command.stdin(lock))) {
                Ok(process) => RunStart::Child(process),
                Err(e) => {
                    RunStart::Ended(exit::without_process(format!("the sidecar could not be started: {e}")))
                }
            }
        };
        *phase = match &beginning {
            RunStart::Child(process) => RunPhase::Child(Arc::clone(process)),
            RunStart::Adopted | RunStart::Ended(_) => RunPhase::Ended,
        };
        drop(phase);
        self.registry.notify_changed();
        beginning
    }
}
