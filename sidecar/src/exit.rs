//! Exit codes of the program.

/// The runtime reads this exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// The agent ended or was stopped, and all events were sent.
    Done = 0,
    /// The sidecar failed; the log has the cause.
    Failed = 1,
    /// The command line is not valid.
    Usage = 2,
    /// Another sidecar holds the lock of this run, or the runtime has closed the run.
    Locked = 3,
    /// The lease of the run expired, so its agent was ended (decision 13).
    LeaseExpired = 4,
    /// The broker refused the run for good: 401 or 410.
    Rejected = 5,
    /// The sidecar was stopped, but part of the spool is unsent. `drain` sends it.
    Undrained = 6,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
