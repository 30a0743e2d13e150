//! How the program ends.

/// What the exit code says to the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// The agent ended or was stopped, and everything was sent.
    Done = 0,
    /// It could not do its work; the log says why.
    Failed = 1,
    /// The command line is not understood.
    Usage = 2,
    /// Another sidecar holds the lock of this run, or the runtime has closed it.
    Locked = 3,
    /// Nothing could be published for too long, so it stopped its agent (ruling 13).
    Isolated = 4,
    /// The broker refused this run for good: 401 or 410.
    Rejected = 5,
    /// It was told to end, but part of the spool is unsent; `drain` sends it.
    Undrained = 6,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
