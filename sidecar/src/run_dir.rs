//! The folder of a run: `launch.json`, `lock`, `spool.db`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use pilothouse_wire::launch::SidecarLaunch;

/// A run's folder, held exclusively. The lock goes with the process, however it ends.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    _lock: Flock<File>,
}

/// A folder that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    /// Another sidecar is alive in it.
    #[error("another sidecar holds the lock of {0}")]
    Locked(PathBuf),
    /// The lock could not be taken for another reason.
    #[error("cannot lock {0}")]
    Lock(PathBuf, #[source] io::Error),
    /// `launch.json` cannot be read.
    #[error("cannot read {0}")]
    Read(PathBuf, #[source] io::Error),
    /// `launch.json` is not a launch.
    #[error("{0} is not a launch file")]
    Malformed(PathBuf, #[source] serde_json::Error),
}

impl RunDir {
    /// Takes the lock of the folder and writes this process's id into it.
    pub fn lock(path: &Path) -> Result<Self, RunDirError> {
        let lock_path = path.join("lock");
        let failed = |e| RunDirError::Lock(lock_path.clone(), e);
        let file =
            OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path).map_err(failed)?;
        let mut lock =
            Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
                Errno::EWOULDBLOCK => RunDirError::Locked(path.to_owned()),
                other => failed(other.into()),
            })?;
        // Only the holder may touch the content: a refused second sidecar must not overwrite the id.
        lock.set_len(0).and_then(|()| write!(*lock, "{}", std::process::id())).map_err(failed)?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// Whether the runtime has noted that the run is over. From then on no agent may start in it (ruling 7).
    pub fn is_over(&self) -> bool {
        ["exited.json", "finished"].iter().any(|note| self.path.join(note).exists())
    }

    /// What the run was launched with.
    pub fn launch(&self) -> Result<SidecarLaunch, RunDirError> {
        let path = self.path.join("launch.json");
        let bytes = fs::read(&path).map_err(|e| RunDirError::Read(path.clone(), e))?;
        serde_json::from_slice(&bytes).map_err(|e| RunDirError::Malformed(path, e))
    }

    /// Where the spool stands.
    pub fn spool_path(&self) -> PathBuf {
        self.path.join("spool.db")
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
    fn a_folder_without_a_launch_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(RunDir::lock(dir.path()).unwrap().launch(), Err(RunDirError::Read(..))));
    }
}
