//! A table with faults: a commit of somebody else comes first, a response is lost, the disk is full, the process crashes at a
//! transaction, or expired items make pages short.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use pilothouse_store::sqlite::SqliteTable;
use pilothouse_store::table::{Item, Key, Page, Query, Table, TableError, Write};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashPoint {
    /// The transaction is rolled back.
    BeforeCommit,
    /// The transaction is committed, and its caller gets an error.
    AfterCommit,
}

type Hook = BoxFuture<'static, ()>;

#[derive(Default)]
struct Crash {
    transactions: usize,
    planned: Option<(usize, CrashPoint)>,
    is_down: bool,
}

/// Clones share the faults and the counter of reads.
#[derive(Clone)]
pub struct FaultyTable {
    pub table: SqliteTable,
    before_commit: Arc<Mutex<Option<Hook>>>,
    before_read: Arc<Mutex<Option<(&'static str, Hook)>>>,
    outcome_lost: Arc<AtomicBool>,
    disk_full: Arc<AtomicBool>,
    crash: Arc<Mutex<Crash>>,
    expired_up_to: Arc<Mutex<Option<String>>>,
    reads: Arc<AtomicUsize>,
}

fn down() -> TableError {
    TableError::Engine("the process has crashed".into())
}

impl FaultyTable {
    /// Wraps a table. Without further calls it has no faults.
    pub fn new(table: SqliteTable) -> Self {
        Self {
            table,
            before_commit: Arc::default(),
            before_read: Arc::default(),
            outcome_lost: Arc::default(),
            disk_full: Arc::default(),
            crash: Arc::default(),
            expired_up_to: Arc::default(),
            reads: Arc::default(),
        }
    }

    /// Runs `hook` before the next transaction, for example a commit that wins a race.
    pub fn before_next_commit(&self, hook: BoxFuture<'static, ()>) {
        *self.before_commit.lock().unwrap() = Some(hook);
    }

    /// Runs `hook` before the next item with this sort key is read, for example a commit after other items were read.
    pub fn before_next_read_of(&self, sort: &'static str, hook: BoxFuture<'static, ()>) {
        *self.before_read.lock().unwrap() = Some((sort, hook));
    }

    /// Commits the next transaction and reports a conflict to its caller, as `DynamoDB` does if the first response was lost.
    pub fn lose_next_outcome(&self) {
        self.outcome_lost.store(true, Ordering::SeqCst);
    }

    /// Journal entries up to this sequence have expired and are not deleted yet. As in `DynamoDB`, a query reads them and returns a page
    /// without them.
    pub fn expire_journals_up_to(&self, sequence: u64) {
        *self.expired_up_to.lock().unwrap() = Some(format!("J#{sequence:016}"));
    }

    /// Sets whether the disk is full: then writes fail, and reads succeed.
    pub fn set_disk_full(&self, is_full: bool) {
        self.disk_full.store(is_full, Ordering::SeqCst);
    }

    /// Crashes the process at the transaction with this number, from 1, counted from now. Then every access fails until
    /// [`Self::restart`].
    pub fn crash_at(&self, transaction: usize, point: CrashPoint) {
        let planned = Some((transaction, point));
        *self.crash.lock().unwrap() = Crash { planned, ..Crash::default() };
    }

    /// Restarts the process if it has crashed. Returns whether it had.
    pub fn restart(&self) -> bool {
        let mut crash = self.crash.lock().unwrap();
        crash.planned = crash.planned.filter(|_| !crash.is_down);
        std::mem::take(&mut crash.is_down)
    }

    /// Whether a crash is planned and has not happened yet.
    pub fn is_crash_pending(&self) -> bool {
        self.crash.lock().unwrap().planned.is_some()
    }

    pub fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }

    fn check_running(&self) -> Result<(), TableError> {
        if self.crash.lock().unwrap().is_down { Err(down()) } else { Ok(()) }
    }

    fn read(&self) -> Result<(), TableError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.check_running()
    }

    fn check_writable(&self) -> Result<(), TableError> {
        self.check_running()?;
        if self.disk_full.load(Ordering::SeqCst) {
            return Err(TableError::Engine(std::io::Error::from(std::io::ErrorKind::StorageFull).into()));
        }
        Ok(())
    }

    fn next_crash(&self) -> Option<CrashPoint> {
        let mut crash = self.crash.lock().unwrap();
        crash.transactions += 1;
        let (at, point) = crash.planned?;
        crash.is_down = crash.transactions == at;
        crash.is_down.then_some(point)
    }
}

#[async_trait]
impl Table for FaultyTable {
    async fn get(&self, key: &Key) -> Result<Option<Item>, TableError> {
        self.read()?;
        let hook = self.before_read.lock().unwrap().take_if(|(sort, _)| *sort == key.sort);
        if let Some((_, hook)) = hook {
            hook.await;
        }
        self.table.get(key).await
    }

    async fn query(&self, query: &Query) -> Result<Page, TableError> {
        self.read()?;
        let mut page = self.table.query(query).await?;
        if let Some(last) = &*self.expired_up_to.lock().unwrap() {
            page.items.retain(|item| !item.key.sort.starts_with("J#") || item.key.sort > *last);
        }
        Ok(page)
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<(), TableError> {
        self.check_writable()?;
        let hook = self.before_commit.lock().unwrap().take();
        if let Some(hook) = hook {
            hook.await;
        }
        match self.next_crash() {
            None if self.outcome_lost.swap(false, Ordering::SeqCst) => {
                self.table.transact(writes).await?;
                Err(TableError::Contended)
            }
            None => self.table.transact(writes).await,
            Some(CrashPoint::BeforeCommit) => Err(down()),
            Some(CrashPoint::AfterCommit) => {
                self.table.transact(writes).await?;
                Err(down())
            }
        }
    }

    async fn put_all(&self, items: Vec<Item>) -> Result<(), TableError> {
        self.check_writable()?;
        self.table.put_all(items).await
    }
}
