//! A table in which somebody else's commit comes first, once: the race that a test wants, every time.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use pilothouse_store::sqlite::SqliteTable;
use pilothouse_store::table::{Item, Key, Page, Query, Table, TableError, Write};

type Meddler = BoxFuture<'static, ()>;

/// The embedded engine, with a hook before its next transaction.
#[derive(Clone)]
pub(crate) struct Meddling {
    pub(crate) table: SqliteTable,
    first: Arc<Mutex<Option<Meddler>>>,
}

impl Meddling {
    pub(crate) fn new(table: SqliteTable) -> Self {
        Self { table, first: Arc::default() }
    }

    /// What is to happen before the next transaction.
    pub(crate) fn before_the_next_commit(&self, meddler: Meddler) {
        *self.first.lock().unwrap() = Some(meddler);
    }
}

#[async_trait]
impl Table for Meddling {
    async fn get(&self, key: &Key) -> Result<Option<Item>, TableError> {
        self.table.get(key).await
    }

    async fn query(&self, query: &Query) -> Result<Page, TableError> {
        self.table.query(query).await
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<(), TableError> {
        let meddler = self.first.lock().unwrap().take();
        if let Some(meddler) = meddler {
            meddler.await;
        }
        self.table.transact(writes).await
    }

    async fn put_all(&self, items: Vec<Item>) -> Result<(), TableError> {
        self.table.put_all(items).await
    }
}
