//! The run directory: `launch.json`, `lock` and `spool.db`.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};
use pilothouse_sqlite::is_disk_full;
use pilothouse_wire::launch::SidecarLaunch;
use tracing::warn;

/// A run directory, locked by this process. The kernel releases the lock however the process ends.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    _lock: Flock<File>,
}

#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    /// Another live sidecar holds the lock.
    #[error("another sidecar holds the lock of {0}")]
    Locked(PathBuf),
    /// The lock failed for another reason.
    #[error("cannot lock {0}")]
    Lock(PathBuf, #[source] io::Error),
    #[error("cannot read {0}")]
    Read(PathBuf, #[source] io::Error),
    #[error("{0} is not a launch file")]
    Malformed(PathBuf, #[source] serde_json::Error),
    /// An agent in a container has replaced the file, for example by a link.
    #[error("{0} is not a file")]
    NotAFile(PathBuf),
}

/// Interval between retries while the disk is full at start-up.
const RETRY: Duration = Duration::from_secs(1);

/// Retries while the disk is full. Blocks the thread, so only for start-up.
pub(crate) fn until_space<T, E: std::error::Error + 'static>(
    mut attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    loop {
        match attempt() {
            Err(error) if is_disk_full(&error) => {
                warn!("the disk is full; the sidecar starts when there is space");
                std::thread::sleep(RETRY);
            }
            outcome => return outcome,
        }
    }
}

impl RunDir {
    /// Also writes this process's id into the lock file. A link in its place is not followed: `drain` runs outside of the
    /// container whose agent may have made the link.
    pub fn lock(path: &Path) -> Result<Self, RunDirError> {
        let lock_path = path.join("lock");
        let failed = |e| RunDirError::Lock(lock_path.clone(), e);
        let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).custom_flags(flags.bits());
        let file = options.open(&lock_path).map_err(failed)?;
        let mut lock =
            Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
                Errno::EWOULDBLOCK => RunDirError::Locked(path.to_owned()),
                other => failed(other.into()),
            })?;
        // Only the holder of the lock writes, so that a refused second sidecar does not overwrite the id.
        until_space(|| lock.set_len(0).and_then(|()| write!(*lock, "{}", std::process::id())))
            .map_err(failed)?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// After the runtime has recorded the end of the run, no agent may start in it (decision 7).
    pub fn is_over(&self) -> bool {
        ["exited.json", "finished"].iter().any(|note| self.path.join(note).exists())
    }

    pub fn launch(&self) -> Result<SidecarLaunch, RunDirError> {
        let path = self.path.join("launch.json");
        let bytes = fs::read(&path).map_err(|e| RunDirError::Read(path.clone(), e))?;
        serde_json::from_slice(&bytes).map_err(|e| RunDirError::Malformed(path, e))
    }

    pub fn lease_path(&self) -> PathBuf {
        self.path.join("lease")
    }

    pub fn spool_path(&self) -> PathBuf {
        self.path.join("spool.db")
    }

    /// Whether there is a spool. Fails if an agent in a container has replaced it, for example by a link to the spool of
    /// another run.
    pub fn has_spool(&self) -> Result<bool, RunDirError> {
        let path = self.spool_path();
        match path.symlink_metadata() {
            Ok(found) if found.is_file() => Ok(true),
            Ok(_) => Err(RunDirError::NotAFile(path)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(RunDirError::Read(path, e)),
        }
    }
}

/// The worker's lock on a session. While a process of a run holds it, no other run of the session starts on that
/// worker.
#[derive(Debug)]
pub struct SessionLock {
    path: PathBuf,
    _held: File,
}

impl SessionLock {
    /// Shares the lock in the session's home. `None` if no worker created one.
    pub fn share(session_home: &Path) -> Result<Option<Self>, RunDirError> {
        let path = session_home.join("lock");
        let failed = |e| RunDirError::Lock(path.clone(), e);
        let held = match File::open(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(failed)?,
        };
        match held.try_lock_shared() {
            Ok(()) => Ok(Some(Self { path, _held: held })),
            Err(TryLockError::WouldBlock) => Err(RunDirError::Locked(session_home.to_owned())),
            Err(TryLockError::Error(e)) => Err(failed(e)),
        }
    }

    /// Path of the lock file, for the guards of the agent's processes.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_holder_at_a_time_and_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let held = RunDir::lock(dir.path()).unwrap();
        assert!(matches!(RunDir::lock(dir.path()), Err(RunDirError::Locked(_))));
        assert_eq!(fs::read_to_string(dir.path().join("lock")).unwrap(), std::process::id().to_string());
        drop(held);
        RunDir::lock(dir.path()).unwrap();
    }

    #[test]
    fn links_in_place_of_lock_and_spool_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let other = dir.path().join("other");
        fs::write(&other, "of another run").unwrap();
        let held = RunDir::lock(dir.path()).unwrap();
        assert!(!held.has_spool().unwrap());
        std::os::unix::fs::symlink(&other, held.spool_path()).unwrap();
        assert!(matches!(held.has_spool(), Err(RunDirError::NotAFile(_))));
        drop(held);
        fs::remove_file(dir.path().join("lock")).unwrap();
        std::os::unix::fs::symlink(&other, dir.path().join("lock")).unwrap();
        assert!(matches!(RunDir::lock(dir.path()), Err(RunDirError::Lock(..))));
        assert_eq!(fs::read_to_string(other).unwrap(), "of another run");
    }

    #[test]
    fn a_folder_without_a_launch_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(RunDir::lock(dir.path()).unwrap().launch(), Err(RunDirError::Read(..))));
    }
}
