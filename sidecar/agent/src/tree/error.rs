//! Why a session file cannot be used.

use std::path::PathBuf;

use super::EntryId;

/// Why a session file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The file system said no.
    #[error("{}: {source}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
    /// A line that is not the last is not what it should be. Nothing is changed.
    #[error("{}, line {line}: {reason}", path.display())]
    Corrupt {
        /// Where.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// A later version wrote it.
    #[error("{}: format {version} is not known here", path.display())]
    UnknownVersion {
        /// Where.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// Somebody else is writing it.
    #[error("{}: another process has this session open", path.display())]
    Locked {
        /// Where.
        path: PathBuf,
    },
    /// There is no such entry.
    #[error("there is no entry {0} in this session")]
    UnknownEntry(EntryId),
    /// The entry is not on the path to the leaf.
    #[error("the entry {0} is not on the current branch")]
    NotOnPath(EntryId),
    /// An append failed half-way and could not be taken back. Open the file again.
    #[error("{}: an earlier write failed; open the session again", path.display())]
    Broken {
        /// Where.
        path: PathBuf,
    },
}
