//! The lock that is held while any process of a program may run.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

/// A shared lock on a file, held twice: by this process, and by everything that it starts. The second lock persists if
/// this process is killed and leaves processes behind; the first one persists if a program releases its inherited lock.
#[derive(Debug)]
pub(super) struct Lock {
    _own: File,
    _inherited: File,
}

impl Lock {
    /// Fails if another process holds the lock exclusively, to wait for the end of all processes that share it.
    pub(super) fn take(path: &Path) -> io::Result<Self> {
        let (own, inherited) = (shared(path)?, shared(path)?);
        make_inheritable(&inherited)?;
        Ok(Self { _own: own, _inherited: inherited })
    }
}

fn shared(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    file.try_lock_shared().map_err(|error| match error {
        TryLockError::WouldBlock => io::Error::other(format!("{} is locked exclusively", path.display())),
        TryLockError::Error(error) => error,
    })?;
    Ok(file)
}

/// Makes programs that are started from now on inherit the lock.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn make_inheritable(file: &File) -> io::Result<()> {
    use nix::fcntl::{FcntlArg, FdFlag, fcntl};
    fcntl(file, FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(())
}

/// Outside Linux, a guard does not end processes that leave its group, and they would hold the lock until they end.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn make_inheritable(_: &File) -> io::Result<()> {
    Ok(())
}
