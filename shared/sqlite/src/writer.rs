//! The writer: one thread, one connection, and one `fsync` for all waiting jobs, if one of them needs it.

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::error::WriteError;
use crate::topics::Topics;

/// Most jobs of one transaction. With more, the first job would wait long for its result.
const MAX_GROUP: usize = 256;
/// Most waiting jobs; further callers have to wait before they can submit one.
pub(crate) const QUEUE: usize = 1024;

/// Connection of a job, inside a transaction and a savepoint. A job that returns an error leaves no changes.
pub struct Tx<'a> {
    conn: &'a Connection,
    effects: RefCell<Effects>,
}

#[derive(Default)]
struct Effects {
    topics: Vec<String>,
    hooks: Vec<Box<dyn FnOnce() + Send>>,
}

impl Tx<'_> {
    /// Notifies watchers of `topic` once the commit is durable.
    pub fn notify(&self, topic: impl Into<String>) {
        self.effects.borrow_mut().topics.push(topic.into());
    }

    /// Runs `hook` on the writer's thread once the commit is durable, before any caller gets its result, in the order of the jobs.
    /// It blocks all writes, so it must be short and must not wait for a write.
    pub fn on_commit(&self, hook: impl FnOnce() + Send + 'static) {
        self.effects.borrow_mut().hooks.push(Box::new(hook));
    }
}

impl Deref for Tx<'_> {
    type Target = Connection;
    fn deref(&self) -> &Connection {
        self.conn
    }
}

type Commit = Result<(), Arc<rusqlite::Error>>;
type CommitCallback = Box<dyn FnOnce(Commit)>;

/// A finished job: whether its changes are kept, and how to send its result.
pub(crate) struct JobOutcome {
    keep: bool,
    answer: CommitCallback,
}

/// What the changes of a job survive when its caller gets the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// A power failure.
    Disk,
    /// The end of the process. A power failure may undo them until a later job with [`Self::Disk`] is committed.
    Process,
}

impl Durability {
    /// The value of SQLite's setting `synchronous`.
    const fn synchronous(self) -> &'static str {
        match self {
            Self::Disk => "FULL",
            Self::Process => "NORMAL",
        }
    }
}

pub(crate) trait Job: Send {
    fn durability(&self) -> Durability;
    fn run(self: Box<Self>, tx: &Tx<'_>) -> JobOutcome;
    /// Fails the job without running it.
    fn refuse(self: Box<Self>, error: Arc<rusqlite::Error>);
}

struct Closure<T, E, F> {
    durability: Durability,
    write: F,
    asked: oneshot::Sender<Result<T, WriteError<E>>>,
}

impl<T, E, F> Job for Closure<T, E, F>
where
    T: Send + 'static,
    E: Send + 'static,
    F: FnOnce(&Tx<'_>) -> Result<T, E> + Send + 'static,
{
    fn durability(&self) -> Durability {
        self.durability
    }

    fn run(self: Box<Self>, tx: &Tx<'_>) -> JobOutcome {
        let Self { durability: _, write, asked } = *self;
        let result = write(tx);
        let keep = result.is_ok();
        let answer = Box::new(move |commit: Commit| {
            let outcome = match (result, commit) {
                (Err(e), _) => Err(WriteError::Job(e)),
                (Ok(_), Err(e)) => Err(WriteError::Commit(e)),
                (Ok(value), Ok(())) => Ok(value),
            };
            // The caller may be gone; committed changes stay committed.
            let _ = asked.send(outcome);
        });
        JobOutcome { keep, answer }
    }

    fn refuse(self: Box<Self>, error: Arc<rusqlite::Error>) {
        let _ = self.asked.send(Err(WriteError::Commit(error)));
    }
}

pub(crate) type JobReceiver<T, E> = oneshot::Receiver<Result<T, WriteError<E>>>;

pub(crate) fn job<T, E, F>(durability: Durability, write: F) -> (Box<dyn Job>, JobReceiver<T, E>)
where
    T: Send + 'static,
    E: Send + 'static,
    F: FnOnce(&Tx<'_>) -> Result<T, E> + Send + 'static,
{
    let (asked, answer) = oneshot::channel();
    (Box::new(Closure { durability, write, asked }), answer)
}

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) commits: AtomicU64,
    pub(crate) jobs: AtomicU64,
}

pub(crate) struct Writer {
    pub(crate) conn: Connection,
    /// The current setting of the connection.
    pub(crate) durability: Cell<Durability>,
    pub(crate) jobs: mpsc::Receiver<Box<dyn Job>>,
    pub(crate) topics: Arc<Topics>,
    pub(crate) counters: Arc<Counters>,
}

impl Writer {
    /// Runs jobs until all senders are dropped and all jobs are done.
    pub(crate) fn run(mut self) {
        let mut group = Vec::with_capacity(MAX_GROUP);
        while self.jobs.blocking_recv_many(&mut group, MAX_GROUP) > 0 {
            self.commit_group(&mut group);
        }
        if let Err(error) = self.conn.execute_batch("PRAGMA optimize") {
            tracing::warn!(%error, "failed to update the statistics of the database");
        }
    }

    fn commit_group(&self, group: &mut Vec<Box<dyn Job>>) {
        self.counters.jobs.fetch_add(group.len() as u64, Ordering::Relaxed);
        let needs_disk = group.iter().any(|job| job.durability() == Durability::Disk);
        let durability = if needs_disk { Durability::Disk } else { Durability::Process };
        let mut waiting = group.drain(..);
        // Usually one round. If a failure makes SQLite abandon the transaction, the round ends early, and the remaining jobs get
        // another transaction.
        while waiting.len() > 0 {
            let begun = self.set_durability(durability).and_then(|()| self.statement("BEGIN IMMEDIATE"));
            if let Err(error) = begun {
                tracing::error!(%error, "failed to begin a transaction");
                let error = Arc::new(error);
                waiting.for_each(|job| job.refuse(Arc::clone(&error)));
                return;
            }
            self.round(&mut waiting);
        }
    }

    fn round(&self, waiting: &mut impl Iterator<Item = Box<dyn Job>>) {
        let tx = Tx { conn: &self.conn, effects: RefCell::default() };
        let mut answers = Vec::new();
        let mut lost = None;
        for job in waiting {
            let (topics, hooks) = {
                let effects = tx.effects.borrow();
                (effects.topics.len(), effects.hooks.len())
            };
            let ran = self.run_job(job, &tx);
            let kept = match &ran {
                Ok(Some(ran)) => ran.keep,
                Ok(None) | Err(_) => false,
            };
            if !kept {
                let mut effects = tx.effects.borrow_mut();
                effects.topics.truncate(topics);
                effects.hooks.truncate(hooks);
            }
            match ran {
                Ok(Some(ran)) => answers.push(ran.answer),
                Ok(None) => {}
                Err(error) => {
                    lost = Some(error);
                    break;
                }
            }
            if self.conn.is_autocommit() {
                lost = Some(transaction_lost());
                break;
            }
        }
        let commit = match lost {
            Some(error) => {
                if !self.conn.is_autocommit() {
                    self.roll_back();
                }
                Err(Arc::new(error))
            }
            None => self.commit(),
        };
        if commit.is_ok() {
            let effects = tx.effects.take();
            for hook in effects.hooks {
                if catch_unwind(AssertUnwindSafe(hook)).is_err() {
                    tracing::error!("a commit hook panicked");
                }
            }
            for answer in answers {
                answer(Ok(()));
            }
            self.topics.publish(effects.topics);
        } else {
            for answer in answers {
                answer(commit.clone());
            }
        }
    }

    /// Runs a job in a savepoint. `None` if it panicked; an error if the transaction cannot continue.
    fn run_job(&self, job: Box<dyn Job>, tx: &Tx<'_>) -> rusqlite::Result<Option<JobOutcome>> {
        self.statement("SAVEPOINT job")?;
        // Partial changes of a panicking job are rolled back; unwinding does not damage the connection.
        let ran = catch_unwind(AssertUnwindSafe(|| job.run(tx))).ok();
        if ran.is_none() {
            tracing::error!("a write panicked and was rolled back");
        }
        if self.conn.is_autocommit() {
            return Ok(ran);
        }
        if !ran.as_ref().is_some_and(|ran| ran.keep) {
            self.statement("ROLLBACK TO job")?;
        }
        self.statement("RELEASE job")?;
        Ok(ran)
    }

    /// Call it outside of a transaction.
    fn set_durability(&self, durability: Durability) -> rusqlite::Result<()> {
        if self.durability.get() != durability {
            self.conn.pragma_update(None, "synchronous", durability.synchronous())?;
            self.durability.set(durability);
        }
        Ok(())
    }

    fn commit(&self) -> Commit {
        match self.statement("COMMIT") {
            Ok(()) => {
                self.counters.commits.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => {
                tracing::error!(%error, "failed to commit");
                if !self.conn.is_autocommit() {
                    self.roll_back();
                }
                Err(Arc::new(error))
            }
        }
    }

    fn roll_back(&self) {
        if let Err(error) = self.statement("ROLLBACK") {
            tracing::error!(%error, "failed to roll back");
        }
    }

    fn statement(&self, sql: &str) -> rusqlite::Result<()> {
        self.conn.prepare_cached(sql)?.execute([]).map(drop)
    }
}

/// SQLite abandons a transaction when the disk is full or fails.
fn transaction_lost() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(
        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ABORT),
        Some("the transaction was rolled back by SQLite".to_owned()),
    )
}
