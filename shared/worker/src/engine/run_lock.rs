//! The lock of a run directory. A sidecar holds it while it lives, so the lock shows whether the sidecar lives.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::Pid;

use super::replaceable::REPLACEABLE;

#[derive(Debug)]
pub(crate) enum LockState {
    /// No sidecar has held the lock yet.
    NeverHeld,
    /// A process with this id holds the lock.
    Held(Pid),
    /// The process that held the lock has ended.
    Released,
}

/// Reads the state of a lock.
///
/// A lock that was never held is not tried: holding it for a moment could make a starting sidecar exit. For the same
/// reason only one caller at a time may inspect the lock of a run.
///
/// Process id 1 is ignored, because it is never a sidecar of this machine; in a container it is the sidecar.
///
/// The agent of a container may have replaced the file by something that is no lock. Then no sidecar can be observed, and
/// the lock counts as released.
pub(crate) fn inspect(path: &Path, in_container: bool) -> io::Result<LockState> {
    match path.symlink_metadata() {
        Ok(found) if found.is_file() => {}
        Ok(_) => return Ok(LockState::Released),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(LockState::NeverHeld),
        Err(e) => return Err(e),
    }
    let mut file = OpenOptions::new().read(true).write(true).custom_flags(REPLACEABLE).open(path)?;
    let mut written = Vec::new();
    (&mut file).take(32).read_to_end(&mut written)?;
    let least = if in_container { 1 } else { 2 };
    let Some(pid) = String::from_utf8_lossy(&written).trim().parse().ok().filter(|pid| *pid >= least) else {
        return Ok(LockState::NeverHeld);
    };
    Ok(try_lock(file)?.map_or(LockState::Held(Pid::from_raw(pid)), |_taken| LockState::Released))
}

/// Dropping the value releases the lock.
pub(crate) fn try_acquire(path: &Path) -> io::Result<Option<Flock<File>>> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(REPLACEABLE);
    try_lock(options.open(path)?)
}

fn try_lock(file: File) -> io::Result<Option<Flock<File>>> {
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(taken) => Ok(Some(taken)),
        Err((_, Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, errno)) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inspecting_does_not_touch_a_lock_that_was_never_held() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        assert!(matches!(inspect(&path, false).unwrap(), LockState::NeverHeld));
        assert!(!path.exists(), "inspecting created the file");
        std::fs::write(&path, "").unwrap();
        assert!(matches!(inspect(&path, false).unwrap(), LockState::NeverHeld));
    }

    #[test]
    fn invalid_process_ids_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        for written in ["0", "1", "-1", "-4000", "12x", "99999999999999"] {
            std::fs::write(&path, written).unwrap();
            let _held = try_acquire(&path).unwrap().unwrap();
            assert!(matches!(inspect(&path, false).unwrap(), LockState::NeverHeld), "{written}");
            let believed = matches!(inspect(&path, true).unwrap(), LockState::Held(_));
            assert_eq!(believed, written == "1", "{written}: process 1 of a container is its sidecar");
        }
    }

    #[test]
    fn a_link_or_pipe_in_place_of_a_lock_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("lock"), folder.path().join("other"));
        std::fs::write(&other, "4000\n").unwrap();
        let _held = try_acquire(&other).unwrap().unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(matches!(inspect(&path, true).unwrap(), LockState::Released), "a link to a held lock");
        assert!(try_acquire(&path).is_err());
        std::fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(matches!(inspect(&path, true).unwrap(), LockState::Released), "a named pipe");
    }

    #[test]
    fn held_and_released_locks_are_distinguished() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        std::fs::write(&path, "4000\n").unwrap();
        assert!(matches!(inspect(&path, false).unwrap(), LockState::Released));
        let held = try_acquire(&path).unwrap().unwrap();
        assert!(matches!(inspect(&path, false).unwrap(), LockState::Held(pid) if pid.as_raw() == 4000));
        drop(held);
        assert!(matches!(inspect(&path, false).unwrap(), LockState::Released));
    }
}
