//! Exit codes: what scripts can rely on.

use std::process::ExitCode;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: done.
    Done,
    /// 1: it failed, or the server refused.
    Failed,
    /// 2: the command line is not understood.
    Usage,
    /// 3: there is no such thing.
    NotFound,
    /// 4: the server cannot be reached, or does not take the token.
    NoAccess,
    /// 5: the session that was watched ended as Failed or Cancelled.
    EndedBadly,
    /// 130: stopped with Ctrl-C while watching. The session goes on.
    Stopped,
}

impl Exit {
    /// The number.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::NoAccess => 4,
            Self::EndedBadly => 5,
            Self::Stopped => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
