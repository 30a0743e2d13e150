//! Where deliverables are kept (S4, repository interfaces).

use std::io;
use std::path::PathBuf;

use pilothouse_domain::deliverable::DeliverableStatus;

/// Reads where deliverables stand (S4 `DeliverableStatusReader`).
pub trait DeliverableStatusReader {
    /// Whether anything was kept yet.
    fn exists(&self) -> Result<bool, RepositoryError>;

    /// What is kept; empty, when nothing is.
    fn load(&self) -> Result<DeliverableStatus, RepositoryError>;
}

/// Keeps deliverables (S4 `DeliverableRepository`).
pub trait DeliverableRepository: DeliverableStatusReader {
    /// Keeps all of them in place of what was kept: whole or not at all, and on disk on return.
    fn save(&self, status: &DeliverableStatus) -> Result<(), RepositoryError>;
}

/// Deliverables that cannot be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    /// The file is there, and is not what it should be. It is left as it is.
    #[error("{} is broken and was left as it is: {why}", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A link, a pipe or something else stands where the folder or file should be.
    #[error("{} must be {expected} and no link", path.display())]
    NotConfined {
        /// The place.
        path: PathBuf,
        /// What should be there.
        expected: &'static str,
    },
    /// Another process works on the file and does not come to an end.
    #[error("{} is in use by another process", .0.display())]
    Busy(PathBuf),
    /// The file system does not allow it.
    #[error("{} cannot be used: {source}", path.display())]
    Io {
        /// The place.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}
