//! The table port: one table of items with a partition key, a sort key and two sparse indexes, as in DynamoDB's single-table
//! design. Two engines implement it, and one contract suite tests both.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use pilothouse_domain::Timestamp;
use serde::de::DeserializeOwned;
use tokio::sync::OwnedMutexGuard;

/// Most bytes of an item, keys and body together. DynamoDB allows 400 KB; larger contents go to a blob.
pub const MAX_ITEM_BYTES: usize = 350 * 1024;
pub const MAX_TRANSACTION_WRITES: usize = 100;
pub const MAX_TRANSACTION_BYTES: usize = 4 * 1024 * 1024;
/// Most bytes that one page of a query reads. A page ends there even if its limit is not reached.
pub const MAX_PAGE_BYTES: usize = 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub partition: String,
    pub sort: String,
}

impl Key {
    pub fn new(partition: impl Into<String>, sort: impl Into<String>) -> Self {
        Self { partition: partition.into(), sort: sort.into() }
    }
}

/// Sparse indexes. An item is in an index if it has a key for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Index {
    /// Lists of an owner, and views of a session's journal.
    Listing,
    /// Deadlines, by time.
    Due,
}

/// Its body is JSON text that the table does not interpret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    pub key: Key,
    /// Kind of the item: `session`, `queue`, `journal` and others.
    pub kind: String,
    /// Number of writes, for items that it guards; 0 for others.
    pub version: u64,
    pub listing: Option<Key>,
    pub due: Option<Key>,
    /// Reads do not return the item afterwards, even before it is deleted.
    pub expires_at: Option<Timestamp>,
    pub body: String,
}

impl Item {
    /// Approximate size of keys and body in bytes, as DynamoDB counts them.
    pub fn size(&self) -> usize {
        let index = |key: &Option<Key>| key.as_ref().map_or(0, |k| k.partition.len() + k.sort.len() + 8);
        self.key.partition.len()
            + self.key.sort.len()
            + self.kind.len()
            + index(&self.listing)
            + index(&self.due)
            + self.body.len()
            + 40
    }
}

/// The value of a body, of any type.
pub type ParsedBody = Arc<dyn Any + Send + Sync>;

/// An item that an engine may keep in memory, with the value that was parsed from its body.
#[derive(Debug)]
pub struct SharedItem {
    item: Item,
    value: OnceLock<ParsedBody>,
}

impl SharedItem {
    pub const fn new(item: Item) -> Self {
        Self { item, value: OnceLock::new() }
    }

    /// An item with the value that its body was written from.
    pub(crate) fn with_value(item: Item, value: Option<ParsedBody>) -> Self {
        Self { item, value: value.map(OnceLock::from).unwrap_or_default() }
    }

    pub const fn item(&self) -> &Item {
        &self.item
    }

    /// Parses the body, or returns the value that was parsed before.
    pub fn parsed<T: DeserializeOwned + Send + Sync + 'static>(&self) -> Result<Arc<T>, serde_json::Error> {
        if let Some(value) = self.value.get()
            && let Ok(value) = Arc::clone(value).downcast::<T>()
        {
            return Ok(value);
        }
        let value: Arc<T> = Arc::new(serde_json::from_str(&self.item.body)?);
        // Fails if the body was parsed meanwhile.
        let _ = self.value.set(Arc::<T>::clone(&value));
        Ok(value)
    }
}

/// The turn of a writer that lost a race for an item, until it is dropped. A writer that has lost no race does not wait for its turn.
#[derive(Debug)]
pub struct Turn {
    key: Key,
    _lock: OwnedMutexGuard<()>,
}

impl Turn {
    pub(crate) const fn new(key: Key, lock: OwnedMutexGuard<()>) -> Self {
        Self { key, _lock: lock }
    }

    /// The item.
    pub(crate) const fn key(&self) -> &Key {
        &self.key
    }
}

/// Expired items count as absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    Always,
    Absent,
    Version(u64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    Put(Item, Condition),
    Delete(Key, Condition),
    Check(Key, Condition),
}

impl Write {
    pub const fn key(&self) -> &Key {
        match self {
            Self::Put(item, _) => &item.key,
            Self::Delete(key, _) | Self::Check(key, _) => key,
        }
    }
}

/// Condition on the sort key of a query. Both ends are inclusive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SortRange {
    All,
    Prefix(String),
    Between(String, String),
}

/// A query for one page of items of one partition, in the order of their sort keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Index to read; `None` for the table itself. Indexes may lag: do not base decisions on them.
    pub index: Option<Index>,
    pub partition: String,
    pub range: SortRange,
    /// Whether to return the last items first.
    pub descending: bool,
    /// At least 1.
    pub limit: usize,
    /// Position of an earlier page to continue after.
    pub after: Option<Position>,
}

impl Query {
    /// The first page of a range of the table itself, in ascending order.
    pub fn new(partition: String, range: SortRange, limit: usize) -> Self {
        Self { index: None, partition, range, descending: false, limit, after: None }
    }
}

/// End of a page, which only engines interpret. [`crate::cursor`] encodes it for clients.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Position {
    pub partition: String,
    pub sort: String,
    /// Set if an index was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_sort: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// May be fewer than the limit, even none, although more follow.
    pub items: Vec<Item>,
    pub next: Option<Position>,
}

/// Like [`Page`].
#[derive(Debug, Default)]
pub struct SharedPage {
    pub items: Vec<Arc<SharedItem>>,
    pub next: Option<Position>,
}

impl From<Page> for SharedPage {
    fn from(Page { items, next }: Page) -> Self {
        Self { items: items.into_iter().map(|item| Arc::new(SharedItem::new(item))).collect(), next }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// Nothing was written.
    #[error("a condition of the transaction did not hold")]
    ConditionFailed {
        /// Positions in the transaction; at least one.
        writes: Vec<usize>,
    },
    /// Another transaction interfered. Nothing was written; a retry may succeed.
    #[error("another transaction interfered")]
    Contended,
    /// The table is overloaded: retry more slowly.
    #[error("the table is overloaded")]
    Throttled,
    /// The request can never succeed: it exceeds a limit or writes one key twice.
    #[error("invalid request: {0}")]
    Invalid(String),
    /// The engine failed. It is unknown whether anything was written.
    #[error("the storage engine failed")]
    Engine(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl TableError {
    /// Whether the same request may succeed later.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Contended | Self::Throttled | Self::Engine(_))
    }
}

#[async_trait]
pub trait Table: Send + Sync + 'static {
    async fn get(&self, key: &Key) -> Result<Option<Item>, TableError>;

    /// Reads one page. Consistent on the table itself, but not on an index.
    async fn query(&self, query: &Query) -> Result<Page, TableError>;

    /// Like [`Self::get`], without a copy of an item that the engine keeps in memory.
    async fn get_shared(&self, key: &Key) -> Result<Option<Arc<SharedItem>>, TableError> {
        Ok(self.get(key).await?.map(|item| Arc::new(SharedItem::new(item))))
    }

    /// Like [`Self::query`], without copies of items that the engine keeps in memory.
    async fn query_shared(&self, query: &Query) -> Result<SharedPage, TableError> {
        Ok(self.query(query).await?.into())
    }

    /// Writes all or nothing. Conditions are checked against the state before the transaction.
    async fn transact(&self, writes: Vec<Write>) -> Result<(), TableError>;

    /// Like [`Self::transact`]. `values` has the values of some bodies, so that an engine that keeps their items need not parse them.
    async fn transact_with_values(
        &self,
        writes: Vec<Write>,
        values: Vec<(Key, ParsedBody)>,
    ) -> Result<(), TableError> {
        drop(values);
        self.transact(writes).await
    }

    /// Puts items individually and unconditionally, in any order. If it fails, some may have been written, so use it only for items
    /// with deterministic keys and bodies.
    async fn put_all(&self, items: Vec<Item>) -> Result<(), TableError>;

    /// Waits for the turn of a writer that lost a race for an item. `None` if writers of the engine have no turns, because some are in
    /// other processes.
    async fn turn(&self, _key: &Key) -> Option<Turn> {
        None
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn body_is_parsed_once_unless_another_type_is_asked_for() {
        let item = SharedItem::new(Item {
            key: Key::new("p", "s"),
            kind: "numbers".to_owned(),
            version: 0,
            listing: None,
            due: None,
            expires_at: None,
            body: "[1,2]".to_owned(),
        });
        let first = item.parsed::<Vec<u8>>().unwrap();
        assert!(Arc::ptr_eq(&first, &item.parsed::<Vec<u8>>().unwrap()));
        assert_eq!(*item.parsed::<Vec<u64>>().unwrap(), [1, 2]);
        assert!(item.parsed::<String>().is_err());
        let value: ParsedBody = Arc::new(vec![3_u8]);
        let given = SharedItem::with_value(item.item().clone(), Some(value));
        assert_eq!(*given.parsed::<Vec<u8>>().unwrap(), [3], "it is not parsed");
    }
}
