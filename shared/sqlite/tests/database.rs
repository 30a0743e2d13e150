//! What the database promises: durability before the answer, failures that stay alone, one writer a file.

// Helpers of tests speak by panicking, as the tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pilothouse_sqlite::{Database, OpenError, Schema, WriteError};
use tempfile::TempDir;

const SCHEMA: Schema = Schema { component: "test", steps: &["CREATE TABLE t (n INTEGER PRIMARY KEY)"] };

fn open(dir: &TempDir) -> Database {
    Database::open(dir.path().join("db"), &[SCHEMA]).unwrap()
}

async fn insert(db: &Database, n: i64) -> Result<(), WriteError<rusqlite::Error>> {
    db.write(move |tx| tx.execute("INSERT INTO t VALUES (?1)", [n]).map(drop)).await
}

fn count(db: &Database) -> i64 {
    db.read_now(|conn| conn.query_row("SELECT count(*) FROM t", [], |row| row.get(0))).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_is_there_for_every_read_after_its_answer_and_after_a_reopen() {
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

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_writes_share_commits_and_a_failing_one_is_rolled_back_alone() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir);
    let mut tasks = Vec::new();
    for n in 0..400_i64 {
        let db = db.clone();
        tasks.push(tokio::spawn(async move {
            db.write(move |tx| {
                tx.execute("INSERT INTO t VALUES (?1)", [n]).map_err(|e| e.to_string())?;
                if n % 4 == 0 { Err(format!("no {n}")) } else { Ok(n) }
            })
            .await
        }));
    }
    for (n, task) in (0..).zip(tasks) {
        match task.await.unwrap() {
            Ok(written) => assert!(written == n && n % 4 != 0),
            Err(WriteError::Job(why)) => assert!(why == format!("no {n}") && n % 4 == 0),
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(count(&db), 300);
    let stats = db.stats();
    assert_eq!(stats.writes, 400);
    assert!(stats.commits < 400, "{} commits for 400 writes", stats.commits);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panicking_write_is_rolled_back_and_the_writer_goes_on() {
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
async fn hooks_and_topics_follow_commits_only_in_their_order() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir);
    let mut all = db.subscribe();
    let mut watch = db.watch("a");
    let mut other = db.watch("b");
    let ran = Arc::new(AtomicU64::new(0));

    let hook = Arc::clone(&ran);
    let failed: Result<(), _> = db
        .write(move |tx| {
            tx.touch("a");
            tx.on_commit(move || {
                hook.fetch_add(100, Ordering::SeqCst);
            });
            Err("no")
        })
        .await;
    assert!(failed.is_err());

    let hook = Arc::clone(&ran);
    db.write(move |tx| {
        tx.touch("a");
        tx.on_commit(move || {
            hook.fetch_add(1, Ordering::SeqCst);
        });
        Ok::<_, ()>(())
    })
    .await
    .unwrap();
    assert_eq!(
        ran.load(Ordering::SeqCst),
        1,
        "the hook ran before the answer, that of the failed write never"
    );
    let deadline = Duration::from_secs(10);
    assert!(tokio::time::timeout(deadline, watch.touched()).await.unwrap());
    assert_eq!(*tokio::time::timeout(deadline, all.recv()).await.unwrap().unwrap(), ["a".to_owned()]);
    assert!(all.try_recv().is_err(), "the failed write touched nothing");
    assert!(tokio::time::timeout(Duration::ZERO, other.touched()).await.is_err());
    drop(db);
    assert!(!watch.touched().await, "watches end with the database");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_asked_for_is_written_when_the_database_is_dropped() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir);
    for n in 0..50 {
        // Polled once: the job is on its way, nobody waits for the answer.
        let mut write = Box::pin(insert(&db, n));
        let _ = futures_poll_once(&mut write).await;
    }
    drop(db);
    assert_eq!(count(&open(&dir)), 50);
}

async fn futures_poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|cx| {
        std::task::Poll::Ready(match std::pin::Pin::new(&mut *future).poll(cx) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

#[tokio::test]
async fn a_second_open_of_the_same_file_is_refused_until_the_first_is_closed() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir);
    let path = dir.path().join("db");
    let second = Database::open(&path, &[SCHEMA]);
    assert!(matches!(second, Err(OpenError::AlreadyOpen { path: p }) if p == path));
    drop(db);
    Database::open(&path, &[SCHEMA]).unwrap();
}

#[tokio::test]
async fn schemas_go_forward_step_by_step_and_never_back() {
    let dir = TempDir::new().unwrap();
    insert(&open(&dir), 1).await.unwrap();
    let path = dir.path().join("db");
    let next =
        Schema { steps: &["never run again", "ALTER TABLE t ADD COLUMN m INTEGER DEFAULT 7"], ..SCHEMA };
    let db = Database::open(&path, &[next]).unwrap();
    let m: i64 = db.read_now(|conn| conn.query_row("SELECT m FROM t", [], |row| row.get(0))).unwrap();
    assert_eq!(m, 7);
    drop(db);
    let error = Database::open(&path, &[SCHEMA]).err().unwrap();
    assert!(matches!(error, OpenError::TooNew { component: "test", found: 2, known: 1 }));
}

#[tokio::test]
async fn readers_cannot_write() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir);
    assert!(db.read_now(|conn| conn.execute("INSERT INTO t VALUES (1)", [])).is_err());
}
