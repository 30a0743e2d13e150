//! The lock that a sidecar holds for its whole life: held means alive, whatever became of its process id.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::Pid;

/// What the lock of a run says.
#[derive(Debug)]
pub(crate) enum Look {
    /// No sidecar has held it yet.
    Untouched,
    /// A process holds it, and wrote this process id.
    Held(Pid),
    /// The process that held it is gone.
    Free,
}

/// Looks at a lock.
///
/// An untouched lock is left alone: taking it, if only to look, could turn away the sidecar that is about to take
/// it. One caller at a time may look at the lock of a run, or they would take each other for the sidecar.
///
/// A process id of this machine is one that can be signalled, so that 1 is never believed; in a container of its own it
/// is the sidecar's.
pub(crate) fn look(path: &Path, in_container: bool) -> io::Result<Look> {
    let mut file = match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Look::Untouched),
        Err(e) => return Err(e),
    };
    let mut written = String::new();
    (&mut file).take(32).read_to_string(&mut written)?;
    let least = if in_container { 1 } else { 2 };
    let Some(pid) = written.trim().parse().ok().filter(|pid| *pid >= least) else {
        return Ok(Look::Untouched);
    };
    Ok(try_lock(file)?.map_or(Look::Held(Pid::from_raw(pid)), |_taken| Look::Free))
}

/// Takes a lock unless another holds it. It is let go of when the value is dropped.
pub(crate) fn take(path: &Path) -> io::Result<Option<Flock<File>>> {
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    try_lock(file)
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
    fn a_lock_without_a_process_id_is_untouched_and_stays_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        assert!(matches!(look(&path, false).unwrap(), Look::Untouched));
        assert!(!path.exists(), "looking created the file");
        std::fs::write(&path, "").unwrap();
        assert!(matches!(look(&path, false).unwrap(), Look::Untouched));
    }

    #[test]
    fn process_ids_that_stand_for_groups_of_others_are_never_believed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        for written in ["0", "1", "-1", "-4000", "12x", "99999999999999"] {
            std::fs::write(&path, written).unwrap();
            let _held = take(&path).unwrap().unwrap();
            assert!(matches!(look(&path, false).unwrap(), Look::Untouched), "{written}");
            let believed = matches!(look(&path, true).unwrap(), Look::Held(_));
            assert_eq!(believed, written == "1", "{written}: the first of a container is its sidecar");
        }
    }

    #[test]
    fn held_and_free_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        std::fs::write(&path, "4000\n").unwrap();
        assert!(matches!(look(&path, false).unwrap(), Look::Free));
        let held = take(&path).unwrap().unwrap();
        assert!(matches!(look(&path, false).unwrap(), Look::Held(pid) if pid.as_raw() == 4000));
        drop(held);
        assert!(matches!(look(&path, false).unwrap(), Look::Free));
    }
}
