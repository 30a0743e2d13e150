//! Exit codes, a stable interface for scripts.

use std::process::ExitCode;

/// The result of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: success.
    Done,
    /// 1: the command failed, or the server refused it.
    Failed,
    /// 2: the command line is invalid.
    Usage,
    /// 3: the named object does not exist.
    NotFound,
    /// 4: the server cannot be reached, or does not accept the token.
    NoAccess,
    /// 5: the watched session ended as Failed or Cancelled.
    EndedBadly,
    /// 130: a watch was stopped with Ctrl-C. The session continues.
    Stopped,
}

impl Exit {
    /// The numeric exit code.
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
