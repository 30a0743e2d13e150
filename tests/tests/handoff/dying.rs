//! A table whose process dies at one transaction, before or after it is committed; then nothing works until it is
//! started again.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use pilothouse_store::sqlite::SqliteTable;
use pilothouse_store::table::{Item, Key, Page, Query, Table, TableError, Write};

/// Where the process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Death {
    /// With the transaction undone.
    Before,
    /// With the transaction done, and nobody told.
    After,
}

#[derive(Default)]
struct Life {
    transactions: usize,
    dies: Option<(usize, Death)>,
    dead: bool,
}

/// The embedded engine, with a process that may die.
#[derive(Clone)]
pub(crate) struct Dying {
    table: SqliteTable,
    life: Arc<Mutex<Life>>,
}

fn gone() -> TableError {
    TableError::Engine("the process is gone".into())
}

impl Dying {
    pub(crate) fn new(table: SqliteTable) -> Self {
        Self { table, life: Arc::default() }
    }

    /// The process dies at the transaction with this number, from 1, counted from now.
    pub(crate) fn dies_at(&self, transaction: usize, how: Death) {
        *self.life.lock().unwrap() = Life { transactions: 0, dies: Some((transaction, how)), dead: false };
    }

    /// Starts it again if it died. Whether it had.
    pub(crate) fn starts_again(&self) -> bool {
        let mut life = self.life.lock().unwrap();
        life.dies = life.dies.filter(|_| !life.dead);
        std::mem::take(&mut life.dead)
    }

    /// Whether its death is still to come.
    pub(crate) fn is_to_die(&self) -> bool {
        self.life.lock().unwrap().dies.is_some()
    }

    fn alive(&self) -> Result<(), TableError> {
        if self.life.lock().unwrap().dead { Err(gone()) } else { Ok(()) }
    }

    fn death(&self) -> Option<Death> {
        let mut life = self.life.lock().unwrap();
        life.transactions += 1;
        let (at, how) = life.dies?;
        life.dead = life.transactions == at;
        life.dead.then_some(how)
    }
}

#[async_trait]
impl Table for Dying {
    async fn get(&self, key: &Key) -> Result<Option<Item>, TableError> {
        self.alive()?;
        self.table.get(key).await
    }

    async fn query(&self, query: &Query) -> Result<Page, TableError> {
        self.alive()?;
        self.table.query(query).await
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<(), TableError> {
        self.alive()?;
        match self.death() {
            None => self.table.transact(writes).await,
            Some(Death::Before) => Err(gone()),
            Some(Death::After) => {
                self.table.transact(writes).await?;
                Err(gone())
            }
        }
    }

    async fn put_all(&self, items: Vec<Item>) -> Result<(), TableError> {
        self.alive()?;
        self.table.put_all(items).await
    }
}
