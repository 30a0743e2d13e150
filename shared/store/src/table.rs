//! The Table port: one table of items with a partition key, a sort key and two sparse indexes, in the terms of
//! DynamoDB's single-table design. Two engines implement it; one contract suite holds both to it.

use async_trait::async_trait;
use pilothouse_domain::Timestamp;

/// The largest item in bytes, keys and body together. DynamoDB takes 400 KB; what is larger goes to a blob.
pub const MAX_ITEM_BYTES: usize = 350 * 1024;
/// The most writes of one transaction.
pub const MAX_TRANSACTION_WRITES: usize = 100;
/// The most bytes of one transaction.
pub const MAX_TRANSACTION_BYTES: usize = 4 * 1024 * 1024;
/// The most bytes that one page of a query reads; a page ends there even when its limit is not reached.
pub const MAX_PAGE_BYTES: usize = 1024 * 1024;

/// The primary key of an item.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The partition.
    pub partition: String,
    /// The place within it.
    pub sort: String,
}

impl Key {
    /// A key.
    pub fn new(partition: impl Into<String>, sort: impl Into<String>) -> Self {
        Self { partition: partition.into(), sort: sort.into() }
    }
}

/// The sparse indexes. An item is in an index when it has a key for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Index {
    /// Lists by owner, and views of a session's journal.
    Listing,
    /// What is due, by time.
    Due,
}

/// One item. Its body is JSON text that the table never looks into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Where it stands.
    pub key: Key,
    /// What it is: `session`, `queue`, `journal`, …
    pub kind: String,
    /// Counts its writes from 1, for items that are guarded by it; 0 for the others.
    pub version: u64,
    /// Its place in [`Index::Listing`].
    pub listing: Option<Key>,
    /// Its place in [`Index::Due`].
    pub due: Option<Key>,
    /// When it may vanish. From then on no read returns it, deleted or not.
    pub expires_at: Option<Timestamp>,
    /// The JSON text.
    pub body: String,
}

impl Item {
    /// Bytes of keys and body, as DynamoDB counts them, near enough.
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

/// What must hold for a write. Expired items count as absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    Always,
    /// The item is absent.
    Absent,
    /// The item is there with this version.
    Version(u64),
}

/// One write of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Puts the item in place of what is there.
    Put(Item, Condition),
    /// Removes the item.
    Delete(Key, Condition),
    /// Writes nothing, but the condition must hold.
    Check(Key, Condition),
}

impl Write {
    /// The key that it is about.
    pub const fn key(&self) -> &Key {
        match self {
            Self::Put(item, _) => &item.key,
            Self::Delete(key, _) | Self::Check(key, _) => key,
        }
    }
}

/// The conditions on the sort key of a query; both ends belong to the range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SortRange {
    /// The whole partition.
    All,
    /// What begins with this.
    Prefix(String),
    /// From the first to the second.
    Between(String, String),
}

/// One page of items of one partition, in the order of their sort keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// The index; none: the table itself. An index may lag behind: never decide from one.
    pub index: Option<Index>,
    /// The partition.
    pub partition: String,
    /// The part of it.
    pub range: SortRange,
    /// Last first.
    pub descending: bool,
    /// At most this many items, at least 1.
    pub limit: usize,
    /// Goes on after this position, which an earlier page gave.
    pub after: Option<Position>,
}

/// Where a page ended. Opaque outside the engines; [`crate::cursor`] makes it a string for the outside.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Position {
    /// Primary key of the last item.
    pub partition: String,
    /// Primary key of the last item.
    pub sort: String,
    /// Key of the last item in the index, when an index was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_sort: Option<String>,
}

/// A page.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// The items. May be fewer than the limit, even none, although there are more.
    pub items: Vec<Item>,
    /// Where the next page starts; none at the end.
    pub next: Option<Position>,
}

/// Why the table did not do it.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// A condition did not hold; nothing was written. The positions of the writes in the transaction.
    #[error("a condition of the transaction did not hold")]
    ConditionFailed {
        /// Which writes, by position; at least one.
        writes: Vec<usize>,
    },
    /// Another transaction was in the way; nothing was written, and trying again may work.
    #[error("another transaction was in the way")]
    Contended,
    /// Too much at once: try again more slowly.
    #[error("the table asks for less load")]
    Throttled,
    /// The request can never work: an item or a transaction over the limits, two writes of one key.
    #[error("not a possible request: {0}")]
    Invalid(String),
    /// The engine failed. Whether anything was written is not known.
    #[error("the storage engine failed")]
    Engine(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl TableError {
    /// Whether the same request may work later.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Contended | Self::Throttled | Self::Engine(_))
    }
}

/// The port.
#[async_trait]
pub trait Table: Send + Sync + 'static {
    /// Reads one item, consistently.
    async fn get(&self, key: &Key) -> Result<Option<Item>, TableError>;

    /// Reads one page. Consistent on the table itself, not on an index.
    async fn query(&self, query: &Query) -> Result<Page, TableError>;

    /// Writes all or nothing. Every condition is checked against the state before the transaction.
    async fn transact(&self, writes: Vec<Write>) -> Result<(), TableError>;

    /// Puts items without conditions, each for itself, in any order. All are written when it returns `Ok`; some
    /// may be when it does not, so only items with deterministic keys and bodies may be put this way.
    async fn put_all(&self, items: Vec<Item>) -> Result<(), TableError>;
}
