use std::io;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file is already open, in this process or another.
    #[error("`{}` is already open, by this process or another", path.display())]
    AlreadyOpen { path: PathBuf },
    /// The lock file beside the database could not be created or locked.
    #[error("failed to lock `{}`", path.display())]
    Lock {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The file could not be created, or restricted to its owner.
    #[error("failed to restrict `{}` to its owner", path.display())]
    Close {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// SQLite could not open or configure the file.
    #[error("failed to open `{}`", path.display())]
    Open {
        path: PathBuf,
        #[source]
        source: rusqlite::Error,
    },
    /// A migration step failed; earlier steps are kept.
    #[error("failed to migrate the tables of `{component}` to step {step}")]
    Migrate {
        component: &'static str,
        /// From 1.
        step: usize,
        #[source]
        source: rusqlite::Error,
    },
    /// A newer version of the program wrote the file.
    #[error("the tables of `{component}` are at step {found}; this program supports {known}")]
    TooNew {
        component: &'static str,
        /// Step of the file.
        found: usize,
        known: usize,
    },
    /// The writer's thread could not be started.
    #[error("failed to start the writer")]
    Thread(#[source] io::Error),
}

#[derive(Debug, thiserror::Error)]
pub enum WriteError<E> {
    /// The job itself failed; only its own changes were rolled back.
    #[error("the write failed")]
    Job(#[source] E),
    /// The transaction with the job failed. Nothing was written, unless the disk failed during the commit; then the result is
    /// unknown.
    #[error("the transaction failed")]
    Commit(#[source] Arc<rusqlite::Error>),
    /// The job panicked, or the writer has ended.
    #[error("the writer returned no result")]
    Abandoned,
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("the read failed")]
    Sqlite(#[from] rusqlite::Error),
    /// The read panicked, or the async runtime is shutting down.
    #[error("the read returned no result")]
    Abandoned,
}
