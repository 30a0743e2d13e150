//! Monitors the disk of the data folder. While it is nearly full, sessions are paused and commands are
//! refused, except those that stop work. Everything continues when there is space again.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pilothouse_app::App;
use pilothouse_app::error_chain;
use pilothouse_functions::events::clock;
use pilothouse_runtime::ProcessState;
use pilothouse_sqlite::Database;
use pilothouse_worker::{Worker, free_disk};

/// Default reserve in MiB: enough to record the end of current work.
const RESERVE_MIB: u64 = 64;
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Size of a trial write after the disk refused a write. Large, because a small write may succeed
/// where the next one fails.
const TRIAL_BYTES: usize = 4 * 1024 * 1024;
/// Space that a start needs, for the keys and for the files that SQLite keeps beside its database.
const START_BYTES: u64 = 1024 * 1024;
const TRIAL: &str = ".space-trial";

pub(super) struct DiskMonitor {
    pub(super) folder: PathBuf,
    pub(super) db: Database,
    pub(super) app: App,
    pub(super) worker: Arc<Worker>,
}

impl DiskMonitor {
    pub(super) async fn run(self) {
        let reserve = reserve();
        let mut refused = self.db.disk_full();
        loop {
            let short = self.is_short(reserve).await;
            if self.app.disk().set_short(short) {
                if short {
                    let folder = self.folder.display();
                    tracing::error!(%folder, "the disk is nearly full; sessions are paused until there is space");
                } else {
                    tracing::warn!("there is space on the disk again; sessions continue");
                }
            }
            if short && !*refused.borrow_and_update() {
                self.pause_sessions().await;
            }
            tokio::select! {
                () = tokio::time::sleep(CHECK_INTERVAL) => {}
                Ok(()) = refused.changed() => {}
            }
        }
    }

    /// Whether the disk has less than the reserve. Lets the background tasks write again as soon as a trial write succeeds, even
    /// below the reserve, so that stops are carried out.
    async fn is_short(&self, reserve: u64) -> bool {
        let refused = *self.db.disk_full().borrow();
        let (folder, was_short) = (self.folder.clone(), self.app.disk().is_short());
        // The shortage ends with a quarter more free space, so that sessions do not alternate between pause and work.
        let needed = if was_short { reserve + reserve / 4 } else { reserve };
        let looked = tokio::task::spawn_blocking(move || Space::look(&folder, refused, needed));
        let Ok(space) = looked.await else { return was_short };
        if refused && space.is_writable {
            self.db.clear_disk_full();
        }
        space.is_short
    }

    /// Pauses the sessions of this machine. Remote ones write to this disk only through queues, which refuse them.
    async fn pause_sessions(&self) {
        for (session, _, process) in self.worker.runs() {
            if process == ProcessState::Alive
                && let Err(cause) = clock::pause_for_disk(&self.app, session).await
            {
                tracing::warn!(%session, cause = %error_chain(&cause), "failed to pause a session for the full disk");
            }
        }
    }
}

struct Space {
    is_writable: bool,
    is_short: bool,
}

impl Space {
    /// Tries a write if the disk refused one before.
    fn look(folder: &Path, refused: bool, needed: u64) -> Self {
        if refused && let Err(error) = try_write(folder) {
            tracing::debug!(%error, "the disk still refuses writes");
            return Self { is_writable: false, is_short: true };
        }
        Self { is_writable: true, is_short: free_disk(folder).is_some_and(|free| free < needed) }
    }
}

fn reserve() -> u64 {
    reserve_mebibytes().saturating_mul(1024 * 1024)
}

/// Space below which sessions are paused, in MiB.
pub(super) fn reserve_mebibytes() -> u64 {
    let mebibytes = std::env::var(super::DISK_RESERVE).ok().and_then(|text| text.parse().ok());
    mebibytes.unwrap_or(RESERVE_MIB)
}

/// Whether the disk of a folder, which need not exist, has no space for a start.
pub(super) fn is_full(folder: &Path) -> bool {
    let existing = folder.ancestors().find(|folder| folder.exists());
    existing.and_then(free_disk).is_some_and(|free| free < START_BYTES)
}

fn try_write(folder: &Path) -> io::Result<()> {
    let path = folder.join(TRIAL);
    let written = File::create(&path).and_then(|mut file| {
        file.write_all(&vec![0; TRIAL_BYTES])?;
        file.sync_data()
    });
    let removed = fs::remove_file(&path);
    written.and(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trial_write_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        try_write(dir.path()).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(try_write(&dir.path().join("missing")).is_err());
    }

    #[test]
    fn a_nearly_full_disk_that_takes_a_write_is_writable() {
        let dir = tempfile::tempdir().unwrap();
        let nearly_full = Space::look(dir.path(), true, u64::MAX);
        assert!(nearly_full.is_writable && nearly_full.is_short);
        let full = Space::look(&dir.path().join("missing"), true, 0);
        assert!(!full.is_writable && full.is_short);
    }
}
