use std::path::PathBuf;

use super::EntryId;

#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    /// A line other than the last is not valid. The file is unchanged.
    #[error("{}, line {line}: {reason}", path.display())]
    Corrupt {
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        reason: String,
    },
    /// A later version wrote the file.
    #[error("{}: format {version} is not known here", path.display())]
    UnknownVersion { path: PathBuf, version: u32 },
    /// Another process has the session open.
    #[error("{}: another process has this session open", path.display())]
    Locked { path: PathBuf },
    #[error("there is no entry {0} in this session")]
    UnknownEntry(EntryId),
    /// The entry is not on the path to the leaf.
    #[error("the entry {0} is not on the current branch")]
    NotOnPath(EntryId),
    /// An append failed in part and could not be undone. The session must be opened again.
    #[error("{}: an earlier write failed; open the session again", path.display())]
    Broken { path: PathBuf },
}

impl TreeError {
    /// The operation can be repeated when there is space.
    pub fn is_disk_full(&self) -> bool {
        use std::io::ErrorKind as K;
        matches!(self, Self::Io { source, .. } if matches!(source.kind(), K::StorageFull | K::QuotaExceeded | K::FileTooLarge))
    }
}
