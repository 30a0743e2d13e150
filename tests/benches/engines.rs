//! Throughput of the embedded engines on this machine: durable commits and broker messages per second. Asserts nothing.
//! `cargo bench -p pilothouse-tests --bench engines`.

// Benches panic on errors, like tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
// Rates are printed for reading.
#![allow(clippy::cast_precision_loss)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pilothouse_broker::{Broker, EmbeddedBroker, OutgoingMessage, QueueName, QueueOptions};
use pilothouse_sqlite::{Database, system_clock};
use pilothouse_store::sqlite::SqliteTable;
use pilothouse_store::table::{Condition, Item, Key, Query, SortRange, Table, Write};

fn item(partition: &str, sort: String, kind: &str, version: u64) -> Item {
    Item {
        key: Key::new(partition, sort),
        kind: kind.to_owned(),
        version,
        listing: (kind == "session").then(|| Key::new("OWNER#1", partition)),
        due: None,
        expires_at: None,
        body: format!("{{\"text\":\"{}\"}}", "x".repeat(900)),
    }
}

/// As the control plane commits it: the aggregate, two journal items, an idempotency record.
fn command(partition: &str, version: u64) -> Vec<Write> {
    let condition = if version == 1 { Condition::Absent } else { Condition::Version(version - 1) };
    vec![
        Write::Put(item(partition, "#state".to_owned(), "session", version), condition),
        Write::Put(item(partition, format!("J#{:012}", version * 2), "journal", 0), Condition::Absent),
        Write::Put(item(partition, format!("J#{:012}", version * 2 + 1), "journal", 0), Condition::Absent),
        Write::Put(item(partition, format!("K#{version}"), "idempotency", 0), Condition::Always),
    ]
}

async fn commits(db: &Database, table: &SqliteTable, tasks: usize, each: usize) {
    let before = db.stats();
    let begun = Instant::now();
    let handles: Vec<_> = (0..tasks)
        .map(|task| {
            let table = table.clone();
            tokio::spawn(async move {
                let partition = format!("SESSION#{tasks}-{task}");
                for n in 1..=each {
                    table.transact(command(&partition, n as u64)).await.unwrap();
                }
            })
        })
        .collect();
    for handle in handles {
        handle.await.unwrap();
    }
    let seconds = begun.elapsed().as_secs_f64();
    let fsyncs = db.stats().commits - before.commits;
    let total = tasks * each;
    println!(
        "commits, {tasks:>2} tasks: {:>7.0}/s of 4 items ({:.2} ms each task), {:.1} a transaction",
        total as f64 / seconds,
        seconds * 1000.0 / each as f64,
        total as f64 / fsyncs as f64,
    );
}

async fn reads(table: &SqliteTable) {
    let begun = Instant::now();
    for n in 0..20_000_u64 {
        let key = Key::new("SESSION#1-0", format!("J#{:012}", 2 + n % 1000));
        assert!(table.get(&key).await.unwrap().is_some());
    }
    println!("gets:              {:>7.0}/s", 20_000.0 / begun.elapsed().as_secs_f64());
    let begun = Instant::now();
    for _ in 0..500 {
        let query = Query {
            descending: true,
            ..Query::new("SESSION#1-0".to_owned(), SortRange::Prefix("J#".to_owned()), 50)
        };
        assert_eq!(table.query(&query).await.unwrap().items.len(), 50);
    }
    println!("pages of 50:       {:>7.0}/s", 500.0 / begun.elapsed().as_secs_f64());
}

async fn events(broker: &EmbeddedBroker, producers: usize, consumers: usize, total: usize) {
    let queue = QueueName::parse("events.fifo").unwrap();
    let options = QueueOptions { visibility: Duration::from_mins(1), max_receives: Some(5) };
    broker.create(&queue, options).await.unwrap();
    let done = Arc::new(AtomicUsize::new(0));
    let begun = Instant::now();
    let mut tasks = Vec::new();
    for producer in 0..producers {
        let (broker, queue) = (broker.clone(), queue.clone());
        tasks.push(tokio::spawn(async move {
            for batch in 0..total / producers / 10 {
                let messages = (0..10)
                    .map(|n| {
                        OutgoingMessage::new(
                            format!("session-{producer}-{}", batch % 4),
                            format!("{consumers}-{producer}-{batch:06}-{n}"),
                            "e".repeat(600),
                        )
                    })
                    .collect();
                assert!(broker.send(&queue, messages).await.unwrap().failed.is_empty());
            }
        }));
    }
    for _ in 0..consumers {
        let (broker, queue, done) = (broker.clone(), queue.clone(), Arc::clone(&done));
        tasks.push(tokio::spawn(async move {
            while done.load(Ordering::Relaxed) < total {
                let received = broker.receive(&queue, 10, Duration::from_millis(20)).await.unwrap();
                if received.is_empty() {
                    continue;
                }
                let receipts: Vec<_> = received.iter().map(|m| m.receipt.clone()).collect();
                broker.delete(&queue, &receipts).await.unwrap();
                done.fetch_add(received.len(), Ordering::Relaxed);
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let rate = total as f64 / begun.elapsed().as_secs_f64();
    println!(
        "broker, {producers:>2} producers, {consumers:>2} consumers: {rate:>7.0} events/s sent, received and deleted"
    );
}

async fn run() {
    let dir = tempfile::TempDir::new().unwrap();
    let schemas = [pilothouse_store::sqlite::SCHEMA, pilothouse_broker::embedded::SCHEMA];
    let db = Database::open(dir.path().join("bench.db"), &schemas).unwrap();
    let table = SqliteTable::new(db.clone(), system_clock());
    commits(&db, &table, 1, 2000).await;
    commits(&db, &table, 8, 1000).await;
    commits(&db, &table, 64, 200).await;
    reads(&table).await;
    let broker = EmbeddedBroker::open(db, system_clock()).await.unwrap();
    events(&broker, 1, 1, 10_000).await;
    events(&broker, 4, 4, 40_000).await;
    events(&broker, 8, 8, 80_000).await;
    events(&broker, 32, 16, 160_000).await;
}

fn main() {
    // `cargo test` runs benches with `--test`; skip the work then.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(run());
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        status.lines().filter(|line| line.starts_with("VmHWM")).for_each(|line| println!("{line}"));
    }
}
