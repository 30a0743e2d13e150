//! The lock of a session, `sessions/{id}/lock`: while a process of one of its runs lives, no other run of the session starts on
//! this worker (decision 13).
//!
//! The worker acquires it before it claims a run, and passes it to the sidecar as standard input. The guards of the agent's
//! programs share it, and so do the programs: the last process that ends releases it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::{Instant, sleep};

use super::inner::Inner;
use super::registry::Run;
use super::replaceable::REPLACEABLE;

pub(crate) fn path(session_home: &Path) -> PathBuf {
    session_home.join("lock")
}

/// Acquires the lock within `limit`, to share it with the processes of a run.
pub(crate) async fn acquire(
    path: &Path,
    limit: Duration,
    poll_interval: Duration,
) -> io::Result<Option<File>> {
    // The agent of a container can put a link in its place, for example to the lock of another session.
    if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
        fs::remove_file(path)?;
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(REPLACEABLE);
    let file = options.open(path)?;
    let deadline = Instant::now() + limit;
    loop {
        match file.try_lock() {
            // Nothing else holds it exclusively: the registry serializes launches, and there is one worker.
            Ok(()) => return file.try_lock_shared().map(|()| Some(file)).map_err(Into::into),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => sleep(poll_interval).await,
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Waits until all processes of a run whose sidecar ended are gone. Kills those that its guards did not end in time.
pub(crate) async fn end_survivors(inner: &Inner, run: &Run) {
    let timing = &inner.config.timing;
    let path = path(&inner.session_home(run.session));
    let kill_at = Instant::now() + timing.survivor_grace;
    let deadline = kill_at + timing.drain_timeout;
    loop {
        // The other run holds the lock.
        if inner.registry.has_other(run) {
            return;
        }
        match is_free(&path) {
            Ok(true) => return,
            Ok(false) if Instant::now() >= deadline => {
                let holders = holders(&path);
                tracing::error!(run = %run.id, ?holders, "failed to end the processes of an ended run");
                return;
            }
            Ok(false) if Instant::now() >= kill_at => {
                for pid in holders(&path) {
                    tracing::warn!(run = %run.id, %pid, "killing a process that outlived its run");
                    let _ = kill(pid, Signal::SIGKILL);
                }
            }
            Ok(false) => {}
            Err(error) => {
                tracing::error!(run = %run.id, %error, "failed to inspect the lock of a session");
                return;
            }
        }
        sleep(timing.poll_interval).await;
    }
}

fn is_free(path: &Path) -> io::Result<bool> {
    match OpenOptions::new().read(true).custom_flags(REPLACEABLE).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        opened => match opened?.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        },
    }
}

/// The other processes that have the file open; empty on systems without `/proc`.
fn holders(path: &Path) -> Vec<Pid> {
    let Ok(file) = fs::symlink_metadata(path) else { return Vec::new() };
    let is_open_in = |pid: &i32| {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.filter_map(|fd| fs::metadata(fd.path()).ok())
            .any(|open| (open.dev(), open.ino()) == (file.dev(), file.ino()))
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| *pid != Pid::this().as_raw())
        .filter(is_open_in)
        .map(Pid::from_raw)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(1);

    #[tokio::test]
    async fn link_to_the_lock_of_another_session_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (path(folder.path()), folder.path().join("other"));
        let _held = acquire(&other, SHORT, SHORT).await.unwrap().unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(is_free(&path).is_err(), "the link was followed");
        assert!(holders(&path).is_empty());
        assert!(acquire(&path, SHORT, SHORT).await.unwrap().is_some());
        assert!(path.symlink_metadata().unwrap().is_file());
    }

    #[tokio::test]
    async fn the_next_run_waits_for_the_last_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = path(folder.path());
        assert!(is_free(&path).unwrap(), "no run held it yet");
        let worker = acquire(&path, SHORT, SHORT).await.unwrap().unwrap();
        let guard = File::open(&path).unwrap();
        guard.try_lock_shared().unwrap();
        drop(worker);
        assert!(!is_free(&path).unwrap());
        assert!(acquire(&path, SHORT, SHORT).await.unwrap().is_none(), "the guard still holds it");
        let (next, ()) = tokio::join!(acquire(&path, Duration::from_secs(20), SHORT), async {
            sleep(SHORT * 20).await;
            drop(guard);
        });
        assert!(next.unwrap().is_some());
    }
}
