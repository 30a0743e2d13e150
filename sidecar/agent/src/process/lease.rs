//! The lease of an agent's programs: a file with the time at which they end. The starting process writes it, and their
//! guards read it. The programs therefore also end if the writer is stopped (`SIGSTOP`) or stuck.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// A clock that includes suspensions of the machine. All processes of the machine share its arbitrary start.
pub fn boot_time() -> Duration {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::CLOCK_BOOTTIME;
    // Includes suspension on these systems.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::CLOCK_MONOTONIC;
    // Fails only for unknown clocks.
    clock_gettime(CLOCK).map_or(Duration::MAX, Duration::from)
}

#[derive(Debug)]
pub struct LeaseFile(File);

impl LeaseFile {
    /// `until` is a value of [`boot_time`].
    pub fn create(path: &Path, until: Duration) -> io::Result<Self> {
        let file =
            File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let lease = Self(file);
        lease.set(until)?;
        Ok(lease)
    }

    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        File::open(path).map(Self)
    }

    pub fn set(&self, until: Duration) -> io::Result<()> {
        let millis = u64::try_from(until.as_millis()).unwrap_or(u64::MAX);
        self.0.write_all_at(&millis.to_le_bytes(), 0)
    }

    /// Zero if the lease has expired or cannot be read.
    pub(crate) fn left(&self) -> Duration {
        let mut millis = [0; 8];
        match self.0.read_exact_at(&mut millis, 0) {
            Ok(()) => Duration::from_millis(u64::from_le_bytes(millis)).saturating_sub(boot_time()),
            Err(_) => Duration::ZERO,
        }
    }
}
