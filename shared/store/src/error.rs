use crate::table::TableError;

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

#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The data changed since it was loaded: load it again and decide again.
    #[error("the data was changed concurrently")]
    Conflict,
    #[error("a request with this idempotency key was made before")]
    ResponseExists,
    #[error("a message with this id already exists")]
    MessageExists,
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
