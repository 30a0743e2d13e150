//! What a worker finds in its data folder when it starts.

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

use crate::lock;
use crate::registry::{Phase, Reservation};
use crate::run_dir::{RunDir, TornRunDir};
use crate::watch::{Beginning, see_to_the_end};
use crate::worker::{Inner, StartError};

/// How long a worker waits for the one before it to let go of the data folder.
const HANDOVER: Duration = Duration::from_secs(5);

impl Inner {
    /// Takes an unfinished run of an earlier worker in hand.
    pub(crate) fn adopt(
        self: &Arc<Self>,
        request: &LaunchRequest,
        exit: Option<RunExit>,
        tasks: &mut JoinSet<()>,
    ) {
        let dir = RunDir::of(&self.runs, request.run_id);
        let (phase, beginning) = match exit {
            Some(exit) => (Phase::Over, Beginning::Over(exit)),
            None => (Phase::Adopted, Beginning::Adopted),
        };
        if let Reservation::New(run) = self.registry.reserve(request.session_id, request.run_id, dir, phase) {
            tracing::info!(run = %run.id, session = %run.session, "a run of an earlier server is adopted");
            let inner = Arc::clone(self);
            tasks.spawn(async move { see_to_the_end(&inner, &run, beginning).await });
        }
    }
}

/// Makes this process the only worker of a data folder.
pub(crate) async fn own(data: &Path) -> Result<Flock<File>, StartError> {
    let deadline = Instant::now() + HANDOVER;
    loop {
        match lock::take(&data.join("worker.lock")) {
            Ok(Some(owner)) => return Ok(owner),
            Ok(None) if Instant::now() < deadline => sleep(Duration::from_millis(20)).await,
            Ok(None) => return Err(StartError::InUse { path: data.to_owned() }),
            Err(source) => return Err(StartError::Data { path: data.to_owned(), source }),
        }
    }
}

/// The unfinished runs of a folder, and how they ended as far as that was noted. What cannot be read is reported in
/// the log and kept.
pub(crate) fn find(runs: &Path) -> io::Result<Vec<(LaunchRequest, Option<RunExit>)>> {
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
        match dir.request(run).and_then(|request| Ok::<_, TornRunDir>((request, dir.exit()?))) {
            Ok(unfinished) => found.push(unfinished),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, path = %entry.path().display(), "the directory of a run is torn and left alone");
            }
        }
    }
    Ok(found)
}
