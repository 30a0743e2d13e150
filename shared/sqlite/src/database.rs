//! The database: what the engines hold.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{broadcast, mpsc};

use crate::error::{OpenError, ReadError, WriteError};
use crate::reader::Readers;
use crate::schema::{Schema, migrate};
use crate::topics::{Topics, Watch};
use crate::writer::{Counters, Job, QUEUE, Tx, Writer, job};

/// The page cache of the writer.
const CACHE_KIB: i64 = 4096;
/// What is left of the log file after a checkpoint.
const LOG_KEPT_BYTES: i64 = 8 * 1024 * 1024;

/// One open SQLite file. Clones are the same database; when the last one is dropped, what was asked for is
/// written and the file is closed.
#[derive(Clone)]
pub struct Database {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    jobs: Mutex<Option<mpsc::Sender<Box<dyn Job>>>>,
    readers: Readers,
    topics: Arc<Topics>,
    counters: Arc<Counters>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Held for as long as the file is open.
    _lock: File,
}

/// How the writer worked so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Transactions that were committed.
    pub commits: u64,
    /// Writes that were asked for.
    pub writes: u64,
}

impl Database {
    /// Opens the file, creates it when it is missing, and brings the tables of `schemas` up to date. Blocks for
    /// some milliseconds. A second open of the same file, from this process or another, is refused.
    pub fn open(path: impl AsRef<Path>, schemas: &[Schema]) -> Result<Self, OpenError> {
        let path = path.as_ref().to_path_buf();
        let lock = lock(&path)?;
        let mut conn = connect(&path).map_err(|source| OpenError::Open { path: path.clone(), source })?;
        migrate(&mut conn, schemas)?;

        let (sender, receiver) = mpsc::channel(QUEUE);
        let topics = Arc::new(Topics::new());
        let counters = Arc::new(Counters::default());
        let writer =
            Writer { conn, jobs: receiver, topics: Arc::clone(&topics), counters: Arc::clone(&counters) };
        let thread = thread::Builder::new()
            .name("sqlite-writer".to_owned())
            .spawn(move || writer.run())
            .map_err(OpenError::Thread)?;
        let inner = Inner {
            readers: Readers::new(path.clone()),
            path,
            jobs: Mutex::new(Some(sender)),
            topics,
            counters,
            thread: Mutex::new(Some(thread)),
            _lock: lock,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Runs `write` on the writer's thread, in a transaction that it may share with others, and answers when it
    /// is durable. When `write` returns an error, what it wrote is rolled back and others are not touched by it.
    /// A caller that stops waiting after it began to wait does not stop the write.
    pub async fn write<T, E, F>(&self, write: F) -> Result<T, WriteError<E>>
    where
        T: Send + 'static,
        E: Send + 'static,
        F: FnOnce(&Tx<'_>) -> Result<T, E> + Send + 'static,
    {
        let sender = self.inner.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (job, answer) = job(write);
        let sender = sender.ok_or(WriteError::Abandoned)?;
        sender.send(job).await.map_err(|_| WriteError::Abandoned)?;
        drop(sender);
        answer.await.unwrap_or(Err(WriteError::Abandoned))
    }

    /// Reads on the caller's thread: for reads of microseconds, such as one item by its key.
    pub fn read_now<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, ReadError> {
        Ok(self.inner.readers.run(read)?)
    }

    /// Reads on a thread for blocking work: for reads that take longer.
    pub async fn read<T, F>(&self, read: F) -> Result<T, ReadError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let inner = Arc::clone(&self.inner);
        tokio::task::spawn_blocking(move || inner.readers.run(read))
            .await
            .map_err(|_| ReadError::Abandoned)?
            .map_err(ReadError::Sqlite)
    }

    /// Watches one topic (see [`Tx::touch`]).
    pub fn watch(&self, topic: &str) -> Watch {
        self.inner.topics.watch(topic)
    }

    /// The topics of each commit that touched any, after it is durable. A subscriber that lags behind is told so
    /// by the channel and has to look at everything.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<[String]>> {
        self.inner.topics.subscribe()
    }

    /// How the writer worked so far.
    pub fn stats(&self) -> Stats {
        Stats {
            commits: self.inner.counters.commits.load(Ordering::Relaxed),
            writes: self.inner.counters.jobs.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Readers first: only the last connection to close folds the log into the file.
        self.readers.close();
        drop(self.jobs.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // The last clone may have been inside a job: the writer cannot wait for itself.
            if thread.thread().id() != thread::current().id() && thread.join().is_err() {
                tracing::error!("the writer of the database panicked");
            }
        }
    }
}

fn lock(path: &Path) -> Result<File, OpenError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let lock_path = PathBuf::from(name);
    let failed = |source| OpenError::Lock { path: lock_path.clone(), source };
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::AlreadyOpen { path: path.to_path_buf() }),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let conn = Connection::open(path)?;
    // Only another program, such as a backup, can be in the way.
    conn.busy_timeout(Duration::from_secs(5))?;
    conn.set_prepared_statement_cache_capacity(128);
    conn.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "foreign_keys", false)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.pragma_update(None, "mmap_size", 0)?;
    conn.pragma_update(None, "cache_size", -CACHE_KIB)?;
    conn.pragma_update(None, "journal_size_limit", LOG_KEPT_BYTES)?;
    Ok(conn)
}
