//! Adopts the unfinished runs in the data folder when a worker starts.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nix::fcntl::Flock;
use pilothouse_domain::RunId;
use pilothouse_wire::launch::{LaunchRequest, RunExit};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::inner::{Inner, StartError};
use super::registry::{Reservation, RunPhase};
use super::run_dir::{RunDir, RunDirError};
use super::run_lock;
use super::supervisor::{RunStart, supervise};

/// How long a worker waits for its predecessor to release the data folder.
const HANDOVER: Duration = Duration::from_secs(5);

impl Inner {
    pub(crate) fn adopt(
        self: &Arc<Self>,
        request: &LaunchRequest,
        exit: Option<RunExit>,
        tasks: &mut JoinSet<()>,
    ) {
        let dir = RunDir::of(&self.runs, request.run_id);
        let (phase, beginning) = match exit {
            Some(exit) => (RunPhase::Ended, RunStart::Ended(exit)),
            None => (RunPhase::Adopted, RunStart::Adopted),
        };
        if let Reservation::New(run) = self.registry.reserve(request.session_id, request.run_id, dir, phase) {
            tracing::info!(run = %run.id, session = %run.session, "adopting a run of an earlier server");
            let inner = Arc::clone(self);
            tasks.spawn(async move { supervise(&inner, &run, beginning).await });
        }
    }
}

/// Only one worker may use a data folder.
pub(crate) async fn lock_data_folder(data: &Path) -> Result<Flock<File>, StartError> {
    let deadline = Instant::now() + HANDOVER;
    loop {
        match run_lock::try_acquire(&data.join("worker.lock")) {
            Ok(Some(owner)) => return Ok(owner),
            Ok(None) if Instant::now() < deadline => sleep(Duration::from_millis(20)).await,
            Ok(None) => return Err(StartError::InUse { path: data.to_owned() }),
            Err(source) => return Err(StartError::Data { path: data.to_owned(), source }),
        }
    }
}

/// Finds the unfinished runs of a folder, with their exits as far as recorded. Unreadable directories are logged
/// and kept. `engine` has the containers of runs that an earlier version started.
pub(crate) fn find_unfinished_runs(
    runs: &Path,
    engine: &Path,
) -> io::Result<Vec<(LaunchRequest, Option<RunExit>)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(runs)? {
        let entry = entry?;
        let Some(run) = entry.file_name().to_str().and_then(|name| name.parse::<RunId>().ok()) else {
            tracing::warn!(path = %entry.path().display(), "not the directory of a run");
            continue;
        };
        let dir = RunDir::of(runs, run);
        if dir.is_finished() {
            continue;
        }
        dir.adopt_engine(engine)?;
        // The lock shows whether a container lives, whatever its agent wrote.
        let exit = || match dir.exit() {
            Err(_) if dir.engine().is_some() => Ok(None),
            exit => exit,
        };
        match dir.request(run).and_then(|request| Ok::<_, RunDirError>((request, exit()?))) {
            Ok(unfinished) => found.push(unfinished),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, path = %entry.path().display(), "ignoring an invalid run directory");
            }
        }
    }
    Ok(found)
}
