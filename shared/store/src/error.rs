//! Errors of the store.

use crate::table::TableError;

/// A failure to read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the table request failed")]
    Table(#[from] TableError),
    /// An item of a newer version, or a damaged one.
    #[error("the item `{partition}/{sort}` cannot be read")]
    Unreadable {
        partition: String,
        sort: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("a value cannot be written as JSON")]
    Unwritable(#[source] serde_json::Error),
}

/// A failure to commit.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The data changed since it was loaded: load it again and decide again.
    #[error("the data was changed concurrently")]
    Conflict,
    /// A request with this idempotency key is in progress or done.
    #[error("a request with this idempotency key was made before")]
    ResponseExists,
    /// A message with this id was enqueued before.
    #[error("a message with this id already exists")]
    MessageExists,
    /// Another aggregate of the same kind and owner has this name.
    #[error("the name is taken")]
    NameTaken,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<TableError> for CommitError {
    fn from(error: TableError) -> Self {
        Self::Store(error.into())
    }
}
