//! Tests of the database: durability, isolated failures, and a single writer.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pilothouse_sqlite::{Database, OpenError, Schema, Tx, WriteError, is_disk_full};
use tempfile::TempDir;

const SCHEMA: Schema = Schema { component: "test", steps: &["CREATE TABLE t (n INTEGER PRIMARY KEY)"] };

fn open(dir: &TempDir) -> Database {
    Database::open(dir.path().join("db"), &[SCHEMA]).unwrap()
}

async fn insert(db: &Database, n: i64) -> Result<(), WriteError<rusqlite::Error>> {
    db.write(move |tx| tx.execute("INSERT INTO t VALUES (?1)", [n]).map(drop)).await
}

fn count(db: &Database) -> i64 {
    db.read_blocking(|conn| conn.query_row("SELECT count(*) FROM t", [], |row| row.get(0))).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_write_is_visible_and_survives_a_reopen() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir);
    for n in 0..20 {
        insert(&db, n).await.unwrap();
        assert_eq!(count(&db), n + 1);
    }
    drop(db);
    let db = open(&dir);
    assert_eq!(count(&db), 20);
    let read = db.read(|conn| conn.query_row("SELECT max(n) FROM t", [], |row| row.get::<_, i64>(0)));
    assert_eq!(read.await.unwrap(), 19);
}

/// SQLite's level `synchronous` in the transaction of a write: 2 waits for the disk, 1 does not.
fn level(tx: &Tx<'_>) -> rusqlite::Result<i64> {
    tx.query_row("PRAGMA synchronous", [], |row| row.get(0))
}

#[tokio::test(flavor = "multi_thread")]
async fn only_groups_without_a_durable_write_skip_the_sync() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir);
    assert_eq!(db.write_unsynced(level).await.unwrap(), 1);
    assert_eq!(db.write(level).await.unwrap(), 2);
    // The writer waits in the first job, so the others form one group.
    let (entered, waiting) = tokio::sync::oneshot::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let blocking = {
        let db = db.clone();
        tokio::spawn(async move {
            db.write_unsynced(move |_| {
                let _ = entered.send(());
                let _ = released.recv();
                Ok::<_, rusqlite::Error>(())
            })
            .await
        })
    };
    waiting.await.unwrap();
    let group = async { tokio::join!(db.write_unsynced(level), db.write(level), db.write_unsynced(level)) };
    let free = async {
        // `join` polls the writes first, which puts them into the queue.
        release.send(()).unwrap();
    };
    let ((first, durable, last), ()) = tokio::join!(biased; group, free);
    assert_eq!((first.unwrap(), durable.unwrap(), last.unwrap()), (2, 2, 2));
    blocking.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn unsynced_write_is_visible_and_survives_a_reopen() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir);
    db.write_unsynced(|tx| tx.execute("INSERT INTO t VALUES (1)", []).map(drop)).await.unwrap();
    assert_eq!(count(&db), 1);
    drop(db);
    assert_eq!(count(&open(&dir)), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_writes_share_commits_and_fail_separately() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir);
    let mut tasks = Vec::new();
    for n in 0..400_i64 {
        let db = db.clone();
        tasks.push(tokio::spawn(async move {
            db.write(move |tx| {
                tx.execute("INSERT INTO t VALUES (?1)", [n])?;
                if n % 4 == 0 { Err(rusqlite::Error::InvalidParameterName(n.to_string())) } else { Ok(n) }
            })
            .await
        }));
    }
    for (n, task) in (0..).zip(tasks) {
        match task.await.unwrap() {
            Ok(written) => assert!(written == n && n % 4 != 0),
            Err(WriteError::Job(rusqlite::Error::InvalidParameterName(why))) => {
                assert!(why == n.to_string() && n % 4 == 0);
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(count(&db), 300);
    let stats = db.stats();
    assert_eq!(stats.writes, 400);
    assert!(stats.commits < 400, "{} commits for 400 writes", stats.commits);
}

#[tokio::test(flavor = "multi_thread")]
async fn panicking_write_is_rolled_back_and_the_writer_continues() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir);
    let result = db
        .write(|tx| -> Result<(), rusqlite::Error> {
            tx.execute("INSERT INTO t VALUES (1)", [])?;
            panic!("on purpose")
        })
        .await;
    assert!(matches!(result, Err(WriteError::Abandoned)));
    insert(&db, 2).await.unwrap();
    assert_eq!(count(&db), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_and_topics_follow_commits_in_order() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir);
    let mut all = db.subscribe();
    let mut watch = db.watch("a");
    let mut other = db.watch("b");
    let ran = Arc::new(AtomicU64::new(0));

    let hook = Arc::clone(&ran);
    let failed: Result<(), _> = db
        .write(move |tx| {
            tx.notify("a");
            tx.on_commit(move || {
                hook.fetch_add(100, Ordering::SeqCst);
            });
            Err(rusqlite::Error::QueryReturnedNoRows)
        })
        .await;
    assert!(failed.is_err());

    let hook = Arc::clone(&ran);
    db.write(move |tx| {
        tx.notify("a");
        tx.on_commit(move || {
            hook.fetch_add(1, Ordering::SeqCst);
        });
        Ok::<_, rusqlite::Error>(())
    })
    .await
    .unwrap();
    assert_eq!(
        ran.load(Ordering::SeqCst),
        1,
        "the hook ran before the result, that of the failed write did not run"
    );
    let deadline = Duration::from_secs(10);
    assert!(tokio::time::timeout(deadline, watch.changed()).await.unwrap());
    assert_eq!(*tokio::time::timeout(deadline, all.recv()).await.unwrap().unwrap(), ["a".to_owned()]);
    assert!(all.try_recv().is_err(), "the failed write touched nothing");
    assert!(tokio::time::timeout(Duration::ZERO, other.changed()).await.is_err());
    drop(db);
    assert!(!watch.changed().await, "watches end with the database");
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_writes_are_committed_on_drop() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir);
    for n in 0..50 {
        // Poll once: the job is submitted, but the result is not awaited.
        let mut write = Box::pin(insert(&db, n));
        let _ = futures_poll_once(&mut write).await;
    }
    drop(db);
    assert_eq!(count(&open(&dir)), 50);
}

async fn futures_poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|ctx| {
        std::task::Poll::Ready(match std::pin::Pin::new(&mut *future).poll(ctx) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

#[tokio::test]
async fn second_open_of_a_file_is_refused_until_the_first_closes() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir);
    let path = dir.path().join("db");
    let second = Database::open(&path, &[SCHEMA]);
    assert!(matches!(second, Err(OpenError::AlreadyOpen { path: p }) if p == path));
    drop(db);
    Database::open(&path, &[SCHEMA]).unwrap();
}

#[tokio::test]
async fn schema_migrates_stepwise_and_never_back() {
    let dir = TempDir::new().unwrap();
    insert(&open(&dir), 1).await.unwrap();
    let path = dir.path().join("db");
    let next =
        Schema { steps: &["never run again", "ALTER TABLE t ADD COLUMN m INTEGER DEFAULT 7"], ..SCHEMA };
    let db = Database::open(&path, &[next]).unwrap();
    let m: i64 = db.read_blocking(|conn| conn.query_row("SELECT m FROM t", [], |row| row.get(0))).unwrap();
    assert_eq!(m, 7);
    drop(db);
    let error = Database::open(&path, &[SCHEMA]).err().unwrap();
    assert!(matches!(error, OpenError::TooNew { component: "test", found: 2, known: 1 }));
}

#[tokio::test]
async fn readers_cannot_write() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir);
    assert!(db.read_blocking(|conn| conn.execute("INSERT INTO t VALUES (1)", [])).is_err());
}

/// With `max_page_count`, SQLite reports the same error as for a full disk.
#[tokio::test]
async fn full_disk_refuses_a_write_until_there_is_space() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir);
    let disk_full = db.disk_full();
    db.write(|tx| tx.execute_batch("PRAGMA max_page_count = 1")).await.unwrap();
    let fill = |tx: &Tx<'_>| {
        tx.execute("CREATE TABLE filled (blob BLOB)", [])?;
        tx.execute("INSERT INTO filled VALUES (zeroblob(1000000))", []).map(drop)
    };
    let refused = db.write(fill).await.unwrap_err();
    assert!(is_disk_full(&refused), "{refused:?}");
    assert!(*disk_full.borrow());
    let left: i64 = db
        .read_blocking(|conn| {
            conn.query_row("SELECT count(*) FROM sqlite_schema WHERE name = 'filled'", [], |row| row.get(0))
        })
        .unwrap();
    assert_eq!(left, 0, "nothing of the refused write was kept");
    insert(&db, 1).await.unwrap();
    assert!(*disk_full.borrow(), "a small write that fits does not clear the flag");
    db.write(|tx| tx.execute_batch("PRAGMA max_page_count = 1000000")).await.unwrap();
    db.write(fill).await.unwrap();
    db.clear_disk_full();
    assert!(!*disk_full.borrow());
}

#[tokio::test(flavor = "multi_thread")]
async fn database_files_are_private() {
    use std::fs::{Permissions, metadata, set_permissions};
    use std::os::unix::fs::PermissionsExt as _;
    let dir = TempDir::new().unwrap();
    let files = ["db", "db-wal", "db-shm", "db.lock"].map(|file| dir.path().join(file));
    for n in [1, 2] {
        let db = open(&dir);
        insert(&db, n).await.unwrap();
        for file in &files {
            assert_eq!(metadata(file).unwrap().permissions().mode() & 0o777, 0o600, "{}", file.display());
        }
        drop(db);
        // Permissions as an earlier version left them.
        for file in files.iter().filter(|file| file.exists()) {
            set_permissions(file, Permissions::from_mode(0o644)).unwrap();
        }
    }
}

/// `.cargo/config.toml` has all options in one variable, so this one shows that the variable reached the compiler.
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_is_compiled_with_the_options_of_the_workspace() {
    let dir = TempDir::new().unwrap();
    let options = open(&dir)
        .read_blocking(|conn| {
            conn.prepare("PRAGMA compile_options")?
                .query_map([], |row| row.get::<_, String>(0))?
                .collect::<rusqlite::Result<Vec<_>>>()
        })
        .unwrap();
    let has = |option: &str| options.iter().any(|known| known == option);
    assert!(has("DEFAULT_MEMSTATUS=0"), "{options:?}");
}
