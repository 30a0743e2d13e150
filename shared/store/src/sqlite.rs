//! The engine of the embedded profile: one `items` table in the SQLite file.
//!
//! The table has a rowid although its key is (partition, sort): without one, SQLite stores whole rows in the inner pages of the
//! key's tree, which becomes deep and slow with bodies of kilobytes.

mod changes;
mod feed;
mod kept_items;
mod query;
mod recent_entries;
mod row;
mod turns;
mod write;

use std::sync::Arc;

use async_trait::async_trait;
use pilothouse_sqlite::{Clock, Database, ReadError, Schema, Watch, WriteError};
use rusqlite::OptionalExtension as _;

pub use self::changes::{TableChanges, WrittenPartitions};
use self::kept_items::{KeptItems, KeptPage};
use self::recent_entries::RecentEntries;
use self::turns::Turns;
use crate::limits;
use crate::table::{
    Item, Key, Page, ParsedBody, Query, SharedItem, SharedPage, Table, TableError, Turn, Write,
};
use crate::usage::{Usage, Written};

pub const SCHEMA: Schema = Schema {
    component: "store",
    steps: &[
        "
        CREATE TABLE items (
            id INTEGER PRIMARY KEY,
            pk TEXT NOT NULL,
            sk TEXT NOT NULL,
            kind TEXT NOT NULL,
            version INTEGER NOT NULL,
            expires INTEGER,
            lp TEXT,
            ls TEXT,
            dp TEXT,
            ds TEXT,
            body TEXT NOT NULL
        );
        CREATE UNIQUE INDEX items_key ON items (pk, sk);
        CREATE INDEX items_listing ON items (lp, ls, pk, sk) WHERE lp IS NOT NULL;
        CREATE INDEX items_due ON items (dp, ds, pk, sk) WHERE dp IS NOT NULL;
        CREATE INDEX items_expiry ON items (expires) WHERE expires IS NOT NULL;
        CREATE TABLE feed (
            n INTEGER PRIMARY KEY AUTOINCREMENT,
            pk TEXT NOT NULL,
            sk TEXT NOT NULL
        );
    ",
        RENAME_ITEMS,
        NUMBER_FEED,
    ],
};

/// Renames items whose keys and kinds did not say what they contain. Keys of journal entries stay, because the feed refers to them.
const RENAME_ITEMS: &str = "
    UPDATE items SET sk = 'QUARANTINE' || substr(sk, 6), kind = 'quarantined' WHERE kind = 'set-aside';
    UPDATE items SET sk = 'PUBLISHED' || substr(sk, 5), kind = 'published' WHERE kind = 'told';
    UPDATE items SET sk = 'SESSION', kind = 'run-session' WHERE kind = 'whose';
    UPDATE items SET sk = 'RESPONSE', kind = 'response' WHERE kind = 'answer';
    UPDATE items SET dp = 'DUE#AGGREGATES' WHERE dp = 'DUE#OWNED';
    UPDATE items SET kind = 'aggregate-journal' WHERE kind = 'owned-journal';
";

/// Numbers the feed by its last row, which stays when the feed is trimmed. `AUTOINCREMENT` wrote the last number to another page with
/// each entry.
const NUMBER_FEED: &str = "
    CREATE TABLE numbered_feed (n INTEGER PRIMARY KEY, pk TEXT NOT NULL, sk TEXT NOT NULL);
    INSERT INTO numbered_feed SELECT n, pk, sk FROM feed;
    INSERT OR IGNORE INTO numbered_feed SELECT seq, '', '' FROM sqlite_sequence WHERE name = 'feed';
    DROP TABLE feed;
    ALTER TABLE numbered_feed RENAME TO feed;
";

/// Pages of up to this many items are read on the caller's thread.
const SMALL_PAGE: usize = 50;

/// Items that [`Table::put_all`] puts in one transaction, so that other writers get their turn.
const PUT_CHUNK: usize = 100;

/// Clones share the same table. Create only one for a database.
#[derive(Clone)]
pub struct SqliteTable {
    db: Database,
    clock: Clock,
    usage: Arc<Usage>,
    memory: Arc<Memory>,
    turns: Arc<Turns>,
}

/// What commits leave in memory for the reads that follow.
#[derive(Default)]
struct Memory {
    recent: RecentEntries,
    kept: KeptItems,
}

impl SqliteTable {
    /// A table in a database that was opened with [`SCHEMA`].
    pub fn new(db: Database, clock: Clock) -> Self {
        Self { db, clock, usage: Arc::default(), memory: Arc::default(), turns: Arc::default() }
    }

    pub fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Watches a partition of the table or the Listing index for writes.
    pub fn watch(&self, partition: &str) -> Watch {
        self.db.watch(&topic(partition))
    }

    /// Subscribes to the partitions of all commits from now on.
    pub fn changes(&self) -> TableChanges {
        TableChanges(self.db.subscribe())
    }

    /// Deletes up to `limit` expired items, which reads no longer return. Returns how many were deleted.
    pub async fn sweep_expired(&self, limit: usize) -> Result<usize, TableError> {
        let now = (self.clock)().as_millis();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.db.write(move |tx| write::sweep(tx, now, limit)).await.map_err(engine_write)
    }

    fn now(&self) -> i64 {
        (self.clock)().as_millis()
    }

    fn read_item(&self, key: &Key) -> Result<Option<Item>, TableError> {
        let now = self.now();
        self.db
            .read_blocking(|conn| {
                conn.prepare_cached(row::GET)?
                    .query_row((&key.partition, &key.sort, now), row::item)
                    .optional()
            })
            .map_err(engine_read)
    }

    async fn read_page(&self, query: &Query) -> Result<Page, TableError> {
        let now = self.now();
        if query.limit <= SMALL_PAGE {
            return self.db.read_blocking(|conn| query::page(conn, query, now)).map_err(engine_read);
        }
        let query = query.clone();
        self.db.read(move |conn| query::page(conn, &query, now)).await.map_err(engine_read)
    }
}

#[async_trait]
impl Table for SqliteTable {
    async fn get(&self, key: &Key) -> Result<Option<Item>, TableError> {
        limits::check_key(key)?;
        let item = match self.memory.kept.get(key) {
            Some(kept) => Some(kept.item().clone()),
            None => self.read_item(key)?,
        };
        self.usage.read(item.as_slice(), true);
        Ok(item)
    }

    async fn get_shared(&self, key: &Key) -> Result<Option<Arc<SharedItem>>, TableError> {
        limits::check_key(key)?;
        let item = match self.memory.kept.get(key) {
            Some(kept) => Some(kept),
            None => self.read_item(key)?.map(|item| Arc::new(SharedItem::new(item))),
        };
        self.usage.read(item.as_deref().map(SharedItem::item), true);
        Ok(item)
    }

    async fn query(&self, query: &Query) -> Result<Page, TableError> {
        limits::check_query(query)?;
        let page = match self.memory.kept.page(query) {
            KeptPage::Known(SharedPage { items, next }) => {
                Page { items: items.iter().map(|kept| kept.item().clone()).collect(), next }
            }
            KeptPage::Unknown(_) => self.read_page(query).await?,
        };
        self.usage.read(&page.items, query.index.is_none());
        Ok(page)
    }

    async fn query_shared(&self, query: &Query) -> Result<SharedPage, TableError> {
        limits::check_query(query)?;
        let page = match self.memory.kept.page(query) {
            KeptPage::Known(page) => page,
            KeptPage::Unknown(stamp) => {
                let page: SharedPage = self.read_page(query).await?.into();
                if let Some(stamp) = stamp
                    && page.next.is_none()
                {
                    self.memory.kept.keep_line(&query.partition, stamp, &page.items);
                }
                page
            }
        };
        self.usage.read(page.items.iter().map(|kept| kept.item()), query.index.is_none());
        Ok(page)
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<(), TableError> {
        self.transact_with_values(writes, Vec::new()).await
    }

    async fn transact_with_values(
        &self,
        writes: Vec<Write>,
        values: Vec<(Key, ParsedBody)>,
    ) -> Result<(), TableError> {
        limits::check_transaction(&writes)?;
        if writes.is_empty() {
            return Ok(());
        }
        let written: Vec<_> = writes.iter().map(Written::of).collect();
        let (now, memory) = (self.now(), Arc::clone(&self.memory));
        self.db
            .write(move |tx| write::transaction(tx, &writes, values, now, &memory))
            .await
            .map_err(flatten)?;
        self.usage.wrote(&written);
        Ok(())
    }

    async fn turn(&self, key: &Key) -> Option<Turn> {
        self.turns.take(key).await
    }

    async fn put_all(&self, mut items: Vec<Item>) -> Result<(), TableError> {
        limits::check_items(&items)?;
        while !items.is_empty() {
            let rest = items.split_off(items.len().min(PUT_CHUNK));
            let chunk = std::mem::replace(&mut items, rest);
            let written: Vec<_> = chunk.iter().map(Written::put).collect();
            let memory = Arc::clone(&self.memory);
            self.db
                .write(move |tx| chunk.iter().try_for_each(|item| write::put(tx, item, &memory)))
                .await
                .map_err(engine_write)?;
            self.usage.put_alone(&written);
        }
        Ok(())
    }
}

/// What the topics of the table begin with.
const TOPIC_PREFIX: &str = "items/";

fn topic(partition: &str) -> String {
    format!("{TOPIC_PREFIX}{partition}")
}

fn engine_read(error: ReadError) -> TableError {
    TableError::Engine(Box::new(error))
}

fn engine_write(error: WriteError<rusqlite::Error>) -> TableError {
    TableError::Engine(Box::new(error))
}

fn flatten(error: WriteError<TableError>) -> TableError {
    match error {
        WriteError::Job(error) => error,
        other @ (WriteError::Commit(_) | WriteError::Abandoned) => TableError::Engine(Box::new(other)),
    }
}
