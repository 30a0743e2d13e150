//! The file descriptors of this process: their limit and their number.
//!
//! Connections, sidecars and files share one limit. At the limit nothing can be opened: no connection, no
//! database file, no process. The server therefore stays below it ([`crate::connections`]).

use std::fs;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Fallback for systems that refuse the hard limit (macOS: `OPEN_MAX`).
const FALLBACK: u64 = 10_240;
/// Assumed if the limit is unknown.
const UNKNOWN: u64 = 1024;
/// The server uses no more than this.
const MAX_USED: u64 = 1 << 20;

/// Raises the soft limit to the hard limit, and returns the effective limit.
pub(crate) fn raise_limit() -> usize {
    let limit = match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((soft, hard)) => [hard.min(MAX_USED), FALLBACK.min(hard)]
            .into_iter()
            .find(|wanted| *wanted > soft && setrlimit(Resource::RLIMIT_NOFILE, *wanted, hard).is_ok())
            .unwrap_or(soft),
        Err(error) => {
            tracing::warn!(%error, "failed to read the limit of open files");
            UNKNOWN
        }
    };
    tracing::debug!(limit, "limit of open files");
    usize::try_from(limit.min(MAX_USED)).unwrap_or(usize::MAX)
}

/// `None` if the system does not report it.
pub(crate) fn open() -> Option<usize> {
    #[cfg(target_os = "linux")]
    const FOLDER: &str = "/proc/self/fd";
    #[cfg(not(target_os = "linux"))]
    const FOLDER: &str = "/dev/fd";
    // One of them is the folder itself.
    fs::read_dir(FOLDER).ok().map(|entries| entries.count().saturating_sub(1))
}
