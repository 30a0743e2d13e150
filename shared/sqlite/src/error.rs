//! What can go wrong, by the step that failed.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Why a database could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another `Database`, in this process or in another, has the file open.
    #[error("`{}` is already open, by this process or another", path.display())]
    AlreadyOpen {
        /// The database file.
        path: PathBuf,
    },
    /// The lock file beside the database could not be created or locked.
    #[error("cannot lock `{}`", path.display())]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// SQLite could not open or configure the file.
    #[error("cannot open `{}`", path.display())]
    Open {
        /// The database file.
        path: PathBuf,
        /// What SQLite said.
        #[source]
        source: rusqlite::Error,
    },
    /// A schema step failed; the steps before it are kept.
    #[error("cannot bring the tables of `{component}` to step {step}")]
    Migrate {
        /// The component.
        component: &'static str,
        /// The step, from 1.
        step: usize,
        /// What SQLite said.
        #[source]
        source: rusqlite::Error,
    },
    /// A newer program wrote the file.
    #[error("the tables of `{component}` are at step {found}; this program knows {known}")]
    TooNew {
        /// The component.
        component: &'static str,
        /// The step in the file.
        found: usize,
        /// The last step that this program knows.
        known: usize,
    },
    /// The writer's thread could not be started.
    #[error("cannot start the writer")]
    Thread(#[source] io::Error),
}

/// Why a write did not happen.
#[derive(Debug, thiserror::Error)]
pub enum WriteError<E> {
    /// The job itself failed; what it wrote was rolled back, alone.
    #[error(transparent)]
    Job(E),
    /// The transaction that the job was part of failed. Nothing of it was written, unless the failure was the
    /// disk's in the middle of the commit: then it is not known.
    #[error("the transaction failed")]
    Commit(#[source] Arc<rusqlite::Error>),
    /// The job panicked, or the writer is gone.
    #[error("the writer gave no answer")]
    Abandoned,
}

/// Why a read failed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// SQLite failed.
    #[error("the read failed")]
    Sqlite(#[from] rusqlite::Error),
    /// The read panicked, or the runtime is shutting down.
    #[error("the read gave no answer")]
    Abandoned,
}
