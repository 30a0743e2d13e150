//! Features of the SQLite engine beyond the port: the feed, the sweep, watches, and counters.

use std::time::Duration;

use pilothouse_sqlite::{Database, Schema, rusqlite};
use pilothouse_store::sqlite::{SCHEMA, SqliteTable};
use pilothouse_store::table::{Condition, Index, Item, Key, Query, SortRange, Table, Write};
use tempfile::TempDir;

use crate::clock::Ahead;

pub(crate) struct Sqlite {
    pub(crate) table: SqliteTable,
    pub(crate) ahead: Ahead,
    dir: TempDir,
}

impl Sqlite {
    // `async` because the suites await the start of every engine.
    #[allow(clippy::unused_async)]
    pub(crate) async fn start() -> Self {
        let dir = TempDir::new().unwrap();
        let ahead = Ahead::default();
        let table = Self::open(&dir, &ahead);
        Self { table, ahead, dir }
    }

    fn open(dir: &TempDir, ahead: &Ahead) -> SqliteTable {
        SqliteTable::new(Database::open(dir.path().join("table.db"), &[SCHEMA]).unwrap(), ahead.clock())
    }

    /// Closes the file and opens it again.
    fn restart(self) -> Self {
        let Self { table, ahead, dir } = self;
        drop(table);
        let table = Self::open(&dir, &ahead);
        Self { table, ahead, dir }
    }
}

fn entry(sort: &str, kind: &str) -> Item {
    Item {
        key: Key::new("p", sort),
        kind: kind.to_owned(),
        version: 0,
        listing: None,
        due: None,
        expires_at: None,
        body: format!("\"{sort}\""),
    }
}

async fn fed(table: &SqliteTable, after: u64) -> Vec<(u64, String)> {
    table.feed(after, 1000).await.unwrap().into_iter().map(|(n, item)| (n, item.key.sort)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn feed_yields_journal_items_in_commit_order_without_gaps() {
    let subject = Sqlite::start().await;
    let table = subject.table.clone();
    let mut writers = Vec::new();
    for writer in 0..6 {
        let table = table.clone();
        writers.push(tokio::spawn(async move {
            for n in 0..30 {
                let entries = vec![
                    Write::Put(entry(&format!("J{writer}-{n:02}-a"), "journal"), Condition::Absent),
                    Write::Put(entry(&format!("S{writer}"), "session"), Condition::Always),
                    Write::Put(entry(&format!("J{writer}-{n:02}-b"), "journal"), Condition::Absent),
                ];
                table.transact(entries).await.unwrap();
            }
        }));
    }
    // Reads during the writes: no item may appear before the position of the reader.
    let mut watch = table.watch_feed();
    let (mut last, mut read) = (0, Vec::new());
    while read.len() < 360 {
        let batch = fed(&table, last).await;
        if batch.is_empty() {
            tokio::time::timeout(Duration::from_mins(1), watch.changed()).await.expect("the feed continues");
        }
        for (n, sort) in batch {
            assert!(n > last);
            last = n;
            read.push(sort);
        }
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(fed(&table, 0).await.into_iter().map(|(_, sort)| sort).collect::<Vec<_>>(), read);
    for writer in 0..6 {
        let mine: Vec<_> = read.iter().filter(|sort| sort.starts_with(&format!("J{writer}"))).collect();
        assert!(mine.len() == 60 && mine.is_sorted());
    }
}

/// Each page that a commit changes becomes a frame of the log.
#[tokio::test(flavor = "multi_thread")]
async fn a_put_writes_only_the_indexes_that_change() {
    const FRAME: u64 = 4096 + 24;
    let subject = Sqlite::start().await;
    let log = subject.dir.path().join("table.db-wal");
    let put = async |listed: &str, due: &str, body: &str| {
        let before = std::fs::metadata(&log).unwrap().len();
        let item = Item {
            listing: Some(Key::new("OWNER#1", listed)),
            due: Some(Key::new("DUE#1", due)),
            body: format!("\"{body}\""),
            ..entry("a", "session")
        };
        subject.table.transact(vec![Write::Put(item, Condition::Always)]).await.unwrap();
        (std::fs::metadata(&log).unwrap().len() - before) / FRAME
    };
    put("1", "1", "first").await;
    assert_eq!(put("1", "1", "second").await, 1, "only the item");
    assert!(put("2", "1", "third").await > 1, "also the indexes");
    let query = |index, partition: &str| Query {
        index: Some(index),
        ..Query::new(partition.to_owned(), SortRange::All, 10)
    };
    for (index, partition) in [(Index::Listing, "OWNER#1"), (Index::Due, "DUE#1")] {
        let found = subject.table.query(&query(index, partition)).await.unwrap().items;
        let places: Vec<_> = found.iter().map(|it| (it.listing.clone(), it.due.clone())).collect();
        let place = (Some(Key::new("OWNER#1", "2")), Some(Key::new("DUE#1", "1")));
        assert_eq!(places, [place], "{index:?}");
        assert_eq!(found[0].body, "\"third\"");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn feed_skips_unchanged_puts_and_never_reuses_a_number() {
    let subject = Sqlite::start().await;
    let items = vec![entry("a", "journal"), entry("b", "journal"), entry("c", "other")];
    subject.table.put_all(items.clone()).await.unwrap();
    subject.table.put_all(items).await.unwrap();
    let first = fed(&subject.table, 0).await;
    assert_eq!(first.iter().map(|(_, sort)| sort.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let last = first[1].0;
    subject.table.trim_feed(last).await.unwrap();
    for sort in ["a", "b"] {
        let delete = Write::Delete(Key::new("p", sort), Condition::Always);
        subject.table.transact(vec![delete]).await.unwrap();
    }
    let subject = subject.restart();
    subject.table.put_all(vec![entry("a", "journal")]).await.unwrap();
    let again = fed(&subject.table, last).await;
    assert_eq!(again.len(), 1);
    assert!(again[0].0 > last);
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_of_an_earlier_feed_are_not_reused() {
    const EARLIER: Schema = Schema { component: SCHEMA.component, steps: SCHEMA.steps.split_at(2).0 };
    let (dir, ahead) = (TempDir::new().unwrap(), Ahead::default());
    let db = Database::open(dir.path().join("table.db"), &[EARLIER]).unwrap();
    let earlier = SqliteTable::new(db.clone(), ahead.clock());
    earlier.put_all(vec![entry("a", "journal"), entry("b", "journal")]).await.unwrap();
    let last = fed(&earlier, 0).await[1].0;
    // An earlier version kept no number when it trimmed the feed.
    db.write(|tx| tx.execute("DELETE FROM feed", []).map(drop)).await.unwrap();
    drop((earlier, db));

    let table = Sqlite::open(&dir, &ahead);
    assert!(fed(&table, 0).await.is_empty());
    table.put_all(vec![entry("c", "journal")]).await.unwrap();
    let next = fed(&table, last).await;
    assert_eq!(next.iter().map(|(_, sort)| sort.as_str()).collect::<Vec<_>>(), ["c"]);
    assert!(next[0].0 > last);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_earlier_file_is_migrated_when_it_is_opened() {
    const FIRST: Schema = Schema { component: SCHEMA.component, steps: SCHEMA.steps.split_at(1).0 };
    let old = [
        ("S#1", "ASIDE#2#0003", "set-aside"),
        ("F#o", "TOLD#4", "told"),
        ("R#5", "WHOSE", "whose"),
        ("I#o#6", "ANSWER", "answer"),
        ("A#chain#7", "J#1", "owned-journal"),
    ];
    let new = [
        ("S#1", "QUARANTINE#2#0003", "quarantined"),
        ("F#o", "PUBLISHED#4", "published"),
        ("R#5", "SESSION", "run-session"),
        ("I#o#6", "RESPONSE", "response"),
        ("A#chain#7", "J#1", "aggregate-journal"),
    ];
    let item = |(partition, sort, kind): (&str, &str, &str)| Item {
        key: Key::new(partition, sort),
        due: Some(Key::new("DUE#OWNED", kind)),
        ..entry(sort, kind)
    };
    let (dir, ahead) = (TempDir::new().unwrap(), Ahead::default());
    let file = dir.path().join("table.db");
    let first = SqliteTable::new(Database::open(&file, &[FIRST]).unwrap(), ahead.clock());
    first.put_all(old.map(item).to_vec()).await.unwrap();
    drop(first);

    let table = Sqlite::open(&dir, &ahead);
    for ((partition, sort, kind), (_, old_sort, _)) in new.into_iter().zip(old) {
        let found = table.get(&Key::new(partition, sort)).await.unwrap().expect(sort);
        assert_eq!((found.kind.as_str(), found.body), (kind, format!("\"{old_sort}\"")));
    }
    let due = Query {
        index: Some(Index::Due),
        partition: "DUE#AGGREGATES".to_owned(),
        range: SortRange::All,
        descending: false,
        limit: 10,
        after: None,
    };
    assert_eq!(table.query(&due).await.unwrap().items.len(), old.len());
}

/// A table, and another one on the same file that has kept nothing, as after a restart. Only a test may have two.
fn with_reader_of_file() -> (SqliteTable, SqliteTable, TempDir) {
    let (dir, ahead) = (TempDir::new().unwrap(), Ahead::default());
    let db = Database::open(dir.path().join("table.db"), &[SCHEMA]).unwrap();
    (SqliteTable::new(db.clone(), ahead.clock()), SqliteTable::new(db, ahead.clock()), dir)
}

fn numbered(partition: &str, sort: &str, version: u64) -> Item {
    Item { key: Key::new(partition, sort), version, body: version.to_string(), ..entry(sort, "item") }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_and_lines_in_memory_equal_those_in_the_file() {
    let (table, file, _dir) = with_reader_of_file();
    let line = |limit, after| Query {
        after,
        ..Query::new("P#o".to_owned(), SortRange::Prefix("LINE#".to_owned()), limit)
    };
    let keys = [("S#1", "SESSION"), ("S#1", "QUEUE"), ("S#2", "SESSION"), ("O#o", "POOL")];
    let keys: Vec<_> = keys.map(|(partition, sort)| Key::new(partition, sort)).into();
    for round in 1..200_u64 {
        let key = &keys[usize::try_from(round % 4).unwrap()];
        let mut writes = vec![Write::Put(numbered(&key.partition, &key.sort, round), Condition::Always)];
        let waiting = format!("LINE#{:03}", round * 7 % 40);
        writes.push(match round % 3 {
            0 => Write::Delete(Key::new("P#o", waiting), Condition::Always),
            _ => Write::Put(numbered("P#o", &waiting, round), Condition::Always),
        });
        if round % 5 == 0 {
            let deleted = &keys[usize::try_from((round + 1) % 4).unwrap()];
            writes.push(Write::Delete(deleted.clone(), Condition::Always));
        }
        if round % 11 == 0 {
            // Nothing of it is written.
            writes.push(Write::Check(Key::new("p", "missing"), Condition::Version(1)));
        }
        let written = table.transact(writes).await;
        assert_eq!(written.is_err(), round % 11 == 0);
        for key in &keys {
            assert_eq!(table.get(key).await.unwrap(), file.get(key).await.unwrap(), "{round}");
        }
        for limit in [10, 100] {
            let kept = table.query_shared(&line(limit, None)).await.unwrap();
            let read = file.query(&line(limit, None)).await.unwrap();
            assert_eq!(kept.items.iter().map(|it| it.item().clone()).collect::<Vec<_>>(), read.items);
            assert_eq!(kept.next, read.next, "{round}");
            let next = line(limit, kept.next);
            assert_eq!(table.query(&next).await.unwrap(), file.query(&next).await.unwrap(), "{round}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_never_older_than_its_session() {
    let (table, _file, _dir) = with_reader_of_file();
    let (session, queue) = (Key::new("S#1", "SESSION"), Key::new("S#1", "QUEUE"));
    let put = |version| {
        let items = ["SESSION", "QUEUE"].map(|sort| numbered("S#1", sort, version));
        items.map(|item| Write::Put(item, Condition::Always)).to_vec()
    };
    table.transact(put(1)).await.unwrap();
    let others = table.clone();
    // Large items of other sessions, so that the session leaves the memory again and again.
    let large = tokio::spawn(async move {
        for n in 0..120 {
            let item =
                Item { body: "x".repeat(300 * 1024), ..numbered(&format!("S#other-{n}"), "SESSION", 1) };
            others.transact(vec![Write::Put(item, Condition::Always)]).await.unwrap();
        }
    });
    let writing = table.clone();
    let writer = tokio::spawn(async move {
        let mut version = 1;
        while !large.is_finished() {
            // Two at once, so that they share a commit.
            let (first, second) = (writing.transact(put(version + 1)), writing.transact(put(version + 2)));
            let (first, second) = tokio::join!(first, second);
            first.and(second).unwrap();
            version += 2;
        }
        large.await.unwrap();
    });
    while !writer.is_finished() {
        let read = table.get(&session).await.unwrap().unwrap().version;
        let later = table.get(&queue).await.unwrap().unwrap().version;
        assert!(read <= later, "the session has version {read}, its queue {later}");
        tokio::task::yield_now().await;
    }
    writer.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn item_of_a_line_is_returned_until_it_expires() {
    let subject = Sqlite::start().await;
    let table = &subject.table;
    let line = Query::new("P#o".to_owned(), SortRange::Prefix("LINE#".to_owned()), 10);
    let length = async || table.query_shared(&line).await.unwrap().items.len();
    let pool = || numbered("O#o", "POOL", 1);
    let soon = (subject.ahead.clock())() + Duration::from_mins(1);
    let expiring = Item { expires_at: Some(soon), ..numbered("P#o", "LINE#2", 1) };

    table.put_all(vec![pool(), numbered("P#o", "LINE#1", 1)]).await.unwrap();
    assert_eq!(length().await, 1);
    table.put_all(vec![expiring]).await.unwrap();
    assert_eq!(length().await, 2, "the line was in memory without the item");
    // The pool is in memory again, and the next read finds the item that expires.
    table.put_all(vec![pool()]).await.unwrap();
    assert_eq!(length().await, 2);
    subject.ahead.advance(Duration::from_secs(61));
    assert_eq!(length().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_commit_changes_nothing_in_memory() {
    let (dir, ahead) = (TempDir::new().unwrap(), Ahead::default());
    let db = Database::open(dir.path().join("table.db"), &[SCHEMA]).unwrap();
    let table = SqliteTable::new(db.clone(), ahead.clock());
    let key = Key::new("S#1", "SESSION");
    let put = |version| vec![Write::Put(numbered("S#1", "SESSION", version), Condition::Always)];
    let kept = async || table.get_shared(&key).await.unwrap().unwrap();
    table.transact(put(1)).await.unwrap();

    // While the writer waits in a job, the next two jobs gather, so that they share a transaction.
    let (started, is_started) = tokio::sync::oneshot::channel();
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let blocked = db.clone();
    let blocking = tokio::spawn(async move {
        let wait = blocked.write(move |_| {
            let _ = started.send(());
            let _ = gate.recv();
            Ok::<_, rusqlite::Error>(())
        });
        wait.await
    });
    is_started.await.unwrap();
    let (written, lost, ()) =
        tokio::join!(table.transact(put(2)), db.write(|tx| tx.execute_batch("ROLLBACK")), async {
            open.send(()).unwrap();
        });
    blocking.await.unwrap().unwrap();
    assert!(written.is_err() && lost.is_err(), "both were in the transaction that failed");
    // The writer has forgotten the failed transaction when it runs the next job.
    db.write(|_| Ok::<_, rusqlite::Error>(())).await.unwrap();

    let (first, second) = (kept().await, kept().await);
    assert_eq!(first.item().version, 1);
    assert!(std::sync::Arc::ptr_eq(&first, &second), "the item is still read from memory");
    table.transact(put(3)).await.unwrap();
    assert_eq!(kept().await.item().version, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn sweep_removes_expired_items_in_batches() {
    let subject = Sqlite::start().await;
    let soon = (subject.ahead.clock())() + Duration::from_mins(1);
    let items = (0..25).map(|n| Item { expires_at: Some(soon), ..entry(&format!("{n:02}"), "log") });
    subject.table.put_all(items.chain([entry("stays", "log")]).collect()).await.unwrap();
    assert_eq!(subject.table.sweep_expired(100).await.unwrap(), 0);
    subject.ahead.advance(Duration::from_secs(61));
    assert_eq!(subject.table.sweep_expired(10).await.unwrap(), 10);
    assert_eq!(subject.table.sweep_expired(100).await.unwrap(), 15);
    assert_eq!(subject.table.sweep_expired(100).await.unwrap(), 0);
    assert!(subject.table.get(&Key::new("p", "stays")).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_sees_its_partition_and_usage_counts_the_work() {
    let subject = Sqlite::start().await;
    let table = &subject.table;
    let mut watch = table.watch("OWNER#1");
    let mut other = table.watch("OWNER#2");
    let listed = Item { listing: Some(Key::new("OWNER#1", "1")), ..entry("a", "session") };
    let size = listed.size();
    table.transact(vec![Write::Put(listed, Condition::Absent)]).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_mins(1), watch.changed()).await.unwrap());
    assert!(tokio::time::timeout(Duration::ZERO, other.changed()).await.is_err());
    table.get(&Key::new("p", "a")).await.unwrap();
    let usage = table.usage().snapshot();
    assert_eq!((usage.transactions, usage.items_written, usage.bytes_written), (1, 1, size as u64));
    assert_eq!((usage.write_units, usage.reads, usage.items_read, usage.read_half_units), (2, 1, 1, 2));
}
