//! From a request to a process: claim, prepare, start.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pilothouse_wire::launch::LaunchRequest;

use crate::claims::ClaimOutcome;
use crate::port::LaunchError;
use crate::process::OwnProcess;
use crate::registry::{Phase, Reservation, Run};
use crate::run_dir::{RunDir, private_folder};
use crate::watch::Beginning;
use crate::worker::Inner;
use crate::{exit, process};

impl Inner {
    /// Claims, prepares and starts a run. Nothing when there is nothing to start.
    pub(crate) async fn begin(
        self: &Arc<Self>,
        request: &LaunchRequest,
    ) -> Result<Option<(Arc<Run>, Beginning)>, LaunchError> {
        let mut changes = self.registry.changes();
        let run = loop {
            if self.stopping.load(Ordering::SeqCst) {
                return Err(LaunchError::Stopping);
            }
            let dir = RunDir::of(&self.runs, request.run_id);
            let preparing = Phase::Preparing { stop: false };
            match self.registry.reserve(request.session_id, request.run_id, dir, preparing) {
                Reservation::New(run) => break run,
                Reservation::Known => return Ok(None),
                // If that one fails, this request is as good as it was.
                Reservation::Preparing => _ = changes.changed().await,
            }
        };
        match self.prepare(request, &run).await {
            Ok(true) => Ok(Some((Arc::clone(&run), self.start_process(request, &run)))),
            Ok(false) => {
                self.registry.remove(run.id);
                Ok(None)
            }
            Err(error) => {
                self.registry.remove(run.id);
                Err(error)
            }
        }
    }

    /// Claims a run and makes its folders. Whether it is to be started.
    async fn prepare(self: &Arc<Self>, request: &LaunchRequest, run: &Arc<Run>) -> Result<bool, LaunchError> {
        if run.dir.exists() {
            // Finished, or torn and left alone at start. A run directory is used once.
            return Ok(false);
        }
        let access = match self.ports.claims.claim(request).await.map_err(LaunchError::Claim)? {
            ClaimOutcome::Claimed(access) => access,
            outcome @ (ClaimOutcome::HeldByOther | ClaimOutcome::RunIsOver) => {
                tracing::info!(run = %run.id, ?outcome, "a launch is not ours to start");
                return Ok(false);
            }
        };
        let (inner, run, request) = (Arc::clone(self), Arc::clone(run), request.clone());
        let made = tokio::task::spawn_blocking(move || {
            let home = inner.sessions.join(request.session_id.to_string());
            private_folder(&home)?;
            run.dir.create(&access.launch(request, home.to_string_lossy().into_owned()))
        });
        made.await.map_err(io::Error::other).and_then(|made| made).map_err(LaunchError::Prepare)?;
        Ok(true)
    }

    /// Starts the process of a run that is claimed and prepared. From here on its end is told by an event, also
    /// when it could not be started.
    fn start_process(&self, request: &LaunchRequest, run: &Arc<Run>) -> Beginning {
        let mut phase = run.phase();
        let stopped =
            matches!(*phase, Phase::Preparing { stop: true }) || self.stopping.load(Ordering::SeqCst);
        let beginning = if stopped {
            Beginning::Over(exit::without_process("the run was stopped before it started".to_owned()))
        } else {
            let command = match &self.config.containers {
                None => process::command(&self.config, "run", &run.dir),
                Some(containers) => {
                    let home = self.sessions.join(run.session.to_string());
                    containers.command(&self.config, request, &home, &run.dir)
                }
            };
            match command.and_then(|mut command| OwnProcess::spawn(&mut command)) {
                Ok(process) => Beginning::Child(process),
                Err(e) => {
                    Beginning::Over(exit::without_process(format!("the sidecar could not be started: {e}")))
                }
            }
        };
        *phase = match &beginning {
            Beginning::Child(process) => Phase::Child(Arc::clone(process)),
            Beginning::Adopted | Beginning::Over(_) => Phase::Over,
        };
        drop(phase);
        self.registry.tell();
        beginning
    }
}
