use std::cell::Cell;
use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{broadcast, mpsc, watch};

use crate::disk::is_disk_full;
use crate::error::{OpenError, ReadError, WriteError};
use crate::reader::Readers;
use crate::schema::{Schema, migrate};
use crate::topics::{Topics, Watch};
use crate::writer::{Counters, Durability, Job, QUEUE, Tx, Writer, job};

const PRIVATE: u32 = 0o600;
/// Page cache of the writer.
const CACHE_KIB: i64 = 4096;
/// Size of the log file after a checkpoint.
const MAX_LOG_BYTES: i64 = 8 * 1024 * 1024;
/// Pages in the log from which on a commit copies them into the file. A page that changed several times since is copied once. They
/// fit into [`MAX_LOG_BYTES`]: a shortened log would grow again, and a commit that changes the length of a file takes longer.
const CHECKPOINT_PAGES: i64 = 2000;

/// An open SQLite file. Clones share the same database. Dropping the last clone completes pending writes and closes the file.
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
    /// Whether the disk refused a write and is not known to accept writes since.
    disk_full: watch::Sender<bool>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Lock that is held while the file is open.
    _lock: File,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    pub commits: u64,
    pub writes: u64,
}

impl Database {
    /// Opens or creates the file and migrates the tables of `schemas`. Blocks for some milliseconds. Fails if the file is already
    /// open in this or another process.
    pub fn open(path: impl AsRef<Path>, schemas: &[Schema]) -> Result<Self, OpenError> {
        let path = path.as_ref().to_path_buf();
        let lock = lock(&path)?;
        restrict_permissions(&path).map_err(|source| OpenError::Close { path: path.clone(), source })?;
        let mut conn = connect(&path).map_err(|source| OpenError::Open { path: path.clone(), source })?;
        migrate(&mut conn, schemas)?;

        let (sender, receiver) = mpsc::channel(QUEUE);
        let topics = Arc::new(Topics::new());
        let counters = Arc::new(Counters::default());
        let writer = Writer {
            conn,
            durability: Cell::new(Durability::Disk),
            jobs: receiver,
            topics: Arc::clone(&topics),
            counters: Arc::clone(&counters),
        };
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
            disk_full: watch::Sender::new(false),
            thread: Mutex::new(Some(thread)),
            _lock: lock,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Runs `write` on the writer's thread, in a transaction that other writes may share, and returns when it is durable. If
    /// `write` returns an error, only its own changes are rolled back. A write that was submitted is completed even if the caller
    /// stops waiting.
    pub async fn write<T, E, F>(&self, write: F) -> Result<T, WriteError<E>>
    where
        T: Send + 'static,
        E: std::error::Error + Send + 'static,
        F: FnOnce(&Tx<'_>) -> Result<T, E> + Send + 'static,
    {
        self.submit(Durability::Disk, write).await
    }

    /// Like [`Self::write`], but returns before the changes are on the disk. They survive the end of this process. A power failure may
    /// undo them, together with all later changes. Use it for changes that are repeated after a power failure.
    pub async fn write_unsynced<T, E, F>(&self, write: F) -> Result<T, WriteError<E>>
    where
        T: Send + 'static,
        E: std::error::Error + Send + 'static,
        F: FnOnce(&Tx<'_>) -> Result<T, E> + Send + 'static,
    {
        self.submit(Durability::Process, write).await
    }

    async fn submit<T, E, F>(&self, durability: Durability, write: F) -> Result<T, WriteError<E>>
    where
        T: Send + 'static,
        E: std::error::Error + Send + 'static,
        F: FnOnce(&Tx<'_>) -> Result<T, E> + Send + 'static,
    {
        let sender = self.inner.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (job, answer) = job(durability, write);
        let sender = sender.ok_or(WriteError::Abandoned)?;
        sender.send(job).await.map_err(|_| WriteError::Abandoned)?;
        drop(sender);
        let outcome = answer.await.unwrap_or(Err(WriteError::Abandoned));
        if let Err(error) = &outcome
            && is_disk_full(error)
        {
            self.inner.disk_full.send_if_modified(|full| !std::mem::replace(full, true));
        }
        outcome
    }

    /// Whether the disk refused a write since the last [`Self::clear_disk_full`].
    pub fn disk_full(&self) -> watch::Receiver<bool> {
        self.inner.disk_full.subscribe()
    }

    /// Records that the disk accepts writes again, after the caller has tried.
    pub fn clear_disk_full(&self) {
        self.inner.disk_full.send_if_modified(|full| std::mem::replace(full, false));
    }

    /// Reads on the caller's thread. For reads that take microseconds, such as one item by its key.
    pub fn read_blocking<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, ReadError> {
        Ok(self.inner.readers.run(read)?)
    }

    /// Reads on a thread for blocking work. For longer reads.
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

    /// Watches a topic (see [`Tx::notify`]).
    pub fn watch(&self, topic: &str) -> Watch {
        self.inner.topics.watch(topic)
    }

    /// Topics of each durable commit that touched any. If a subscriber lags behind, the channel reports that, and the subscriber
    /// has to check everything.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<[String]>> {
        self.inner.topics.subscribe()
    }

    pub fn stats(&self) -> Stats {
        Stats {
            commits: self.inner.counters.commits.load(Ordering::Relaxed),
            writes: self.inner.counters.jobs.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Close readers first: only the last connection merges the log into the file when it closes.
        self.readers.close();
        drop(self.jobs.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // The last clone may be dropped inside a job, where the writer cannot wait for itself.
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
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(PRIVATE)
        .open(&lock_path)
        .map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::AlreadyOpen { path: path.to_path_buf() }),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// Restricts the file to its owner, including files that an earlier version created with other permissions. SQLite gives the log
/// and its index the permissions of the file.
fn restrict_permissions(path: &Path) -> io::Result<()> {
    OpenOptions::new().create(true).truncate(false).write(true).mode(PRIVATE).open(path)?;
    for end in ["", "-wal", "-shm", ".lock"] {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        match std::fs::metadata(&name) {
            Ok(found) if found.permissions().mode() & 0o077 != 0 => {
                std::fs::set_permissions(&name, Permissions::from_mode(PRIVATE))?;
            }
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            Ok(_) | Err(_) => {}
        }
    }
    Ok(())
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let conn = Connection::open(path)?;
    // Only another program, such as a backup, can hold a lock.
    conn.busy_timeout(Duration::from_secs(5))?;
    conn.set_prepared_statement_cache_capacity(128);
    conn.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "foreign_keys", false)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.pragma_update(None, "mmap_size", 0)?;
    conn.pragma_update(None, "cache_size", -CACHE_KIB)?;
    conn.pragma_update(None, "journal_size_limit", MAX_LOG_BYTES)?;
    conn.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    Ok(conn)
}
