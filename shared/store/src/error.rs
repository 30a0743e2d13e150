//! Why the store did not do it.

use crate::table::TableError;

/// A failure to read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The table failed.
    #[error("the table failed")]
    Table(#[from] TableError),
    /// An item that this program cannot read: newer, or damaged.
    #[error("the item `{partition}/{sort}` cannot be read")]
    Unreadable {
        /// Its partition.
        partition: String,
        /// Its place there.
        sort: String,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// A value that does not become JSON.
    #[error("a value cannot be written as JSON")]
    Unwritable(#[source] serde_json::Error),
}

/// A failure to commit.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Something was changed by another since it was loaded: load again and decide again.
    #[error("another change came first")]
    Conflict,
    /// A request with this idempotency key is being answered, or was.
    #[error("a request with this idempotency key came first")]
    AnswerExists,
    /// A message with this id was enqueued before.
    #[error("a message with this id exists")]
    MessageExists,
    /// Another of the same kind and owner has this name.
    #[error("another one has this name")]
    NameTaken,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<TableError> for CommitError {
    fn from(error: TableError) -> Self {
        Self::Store(error.into())
    }
}
