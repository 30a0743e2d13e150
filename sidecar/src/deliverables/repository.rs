//! Storage of deliverables (S4, repository interfaces).

use std::io;
use std::path::PathBuf;

use pilothouse_domain::deliverable::DeliverableStatus;

/// Reads deliverables (S4 `DeliverableStatusReader`).
pub trait DeliverableStatusReader {
    /// Whether anything has been stored.
    fn exists(&self) -> Result<bool, RepositoryError>;

    /// The stored deliverables; empty if there are none.
    fn load(&self) -> Result<DeliverableStatus, RepositoryError>;
}

/// Stores deliverables (S4 `DeliverableRepository`).
pub trait DeliverableRepository: DeliverableStatusReader {
    /// Replaces all stored deliverables, atomically. Durable on return.
    fn save(&self, status: &DeliverableStatus) -> Result<(), RepositoryError>;
}

#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    /// The file exists but is not valid. It is not changed.
    #[error("{} is broken and was left as it is: {why}", path.display())]
    Broken { path: PathBuf, why: String },
    /// A link, a pipe or another file type is in the place of the folder or the file.
    #[error("{} must be {expected} and no link", path.display())]
    NotConfined {
        path: PathBuf,
        /// What the path should be, as in "a folder".
        expected: &'static str,
    },
    /// Another process holds the lock too long.
    #[error("{} is in use by another process", .0.display())]
    Busy(PathBuf),
    #[error("failed to access {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}
