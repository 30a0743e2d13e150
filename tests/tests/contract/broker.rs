//! Runs the broker suite on the embedded engine.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pilothouse_broker::contract::{self, Subject};
use pilothouse_broker::embedded::SCHEMA;
use pilothouse_broker::{Broker, EmbeddedBroker, OutgoingMessage, QueueName, QueueOptions, Receipt};
use pilothouse_sqlite::Database;
use tempfile::TempDir;

use crate::clock::Ahead;

struct Embedded {
    dir: TempDir,
    ahead: Ahead,
    db: Option<Database>,
    broker: Option<Arc<dyn Broker>>,
}

impl Embedded {
    async fn start() -> Self {
        let dir = TempDir::new().unwrap();
        let mut subject = Self { dir, ahead: Ahead::default(), db: None, broker: None };
        subject.restart().await;
        subject
    }

    /// A case must not keep a handle, because the file must be closed before it is opened again.
    async fn reopen(&mut self) -> EmbeddedBroker {
        (self.broker, self.db) = (None, None);
        let db = Database::open(self.dir.path().join("broker.db"), &[SCHEMA]).unwrap();
        self.db = Some(db.clone());
        EmbeddedBroker::open(db, self.ahead.clock()).await.unwrap()
    }

    fn writes(&self) -> u64 {
        self.db.as_ref().unwrap().stats().writes
    }
}

#[async_trait]
impl Subject for Embedded {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::clone(self.broker.as_ref().unwrap())
    }

    async fn restart(&mut self) {
        self.broker = Some(Arc::new(self.reopen().await));
    }

    async fn advance(&self, by: Duration) {
        self.ahead.advance(by);
    }
}

macro_rules! run {
    ($setup:path; $($case:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                contract::$case(&mut $setup().await).await;
            }
        )*
    };
}

mod embedded {
    use super::{Embedded, contract};

    pilothouse_broker::broker_cases!(run, Embedded::start);
    pilothouse_broker::own_broker_cases!(run, Embedded::start);
}

/// A receive that cannot be recorded, for example on a full disk, is refused and does not count.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_receive_does_not_count() {
    let dir = TempDir::new().unwrap();
    let db = Database::open(dir.path().join("broker.db"), &[SCHEMA]).unwrap();
    let broker = EmbeddedBroker::open(db.clone(), Ahead::default().clock()).await.unwrap();
    let queue = queue();
    let options = QueueOptions { visibility: Duration::from_mins(1), max_receives: Some(2) };
    broker.create(&queue, options).await.unwrap();
    assert!(broker.send(&queue, vec![OutgoingMessage::new("g", "1", "x")]).await.unwrap().failed.is_empty());
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON receives BEGIN SELECT RAISE(ABORT, 'no'); END";
    db.write(|tx| tx.execute_batch(refuse)).await.unwrap();
    for _ in 0..5 {
        assert!(broker.receive(&queue, 1, Duration::ZERO).await.is_err());
    }
    db.write(|tx| tx.execute_batch("DROP TRIGGER refuse")).await.unwrap();
    let received = broker.receive(&queue, 1, Duration::ZERO).await.unwrap();
    assert_eq!(received.iter().map(|m| (m.body.as_str(), m.receive_count)).collect::<Vec<_>>(), [("x", 1)]);
    assert_eq!(broker.dead_letter_depth(&queue).await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn message_that_only_waits_does_not_use_up_its_receives() {
    let mut subject = Embedded::start().await;
    let broker = subject.reopen().await;
    let options = QueueOptions { visibility: Duration::from_mins(1), max_receives: Some(2) };
    broker.create(&queue(), options).await.unwrap();
    let message = OutgoingMessage::new("g", "1", "x");
    assert!(broker.send(&queue(), vec![message]).await.unwrap().failed.is_empty());
    let mut receipts = Vec::new();
    for _ in 0..5 {
        let waiting = received(&broker).await;
        assert_eq!(bodies(&waiting), [("x", 1)]);
        assert!(!receipts.contains(&waiting[0].2), "each receive has its own receipt");
        receipts.push(waiting[0].2.clone());
        broker.release_uncounted(&queue(), &[waiting[0].2.clone()], Duration::from_secs(5)).await.unwrap();
        assert_eq!(received(&broker).await, [], "it waits");
        subject.ahead.advance(Duration::from_secs(5));
    }
    // Each is stale as soon as the message is received again.
    broker.delete(&queue(), &receipts[..4]).await.unwrap();

    // Failures count, also after a restart.
    let failed = received(&broker).await;
    assert_eq!(bodies(&failed), [("x", 1)], "stale receipts deleted nothing");
    broker.release(&queue(), &[failed[0].2.clone()], Duration::ZERO).await.unwrap();
    drop(broker);
    let broker = subject.reopen().await;
    let failed = received(&broker).await;
    assert_eq!(bodies(&failed), [("x", 2)]);
    broker.release(&queue(), &[failed[0].2.clone()], Duration::ZERO).await.unwrap();
    assert_eq!(received(&broker).await, []);
    assert_eq!(broker.dead_letter_depth(&queue()).await.unwrap(), 1);
}

/// A broker whose queue `q.fifo` has these messages of one group in memory.
async fn in_memory(subject: &mut Embedded, bodies: &[&str], max_receives: Option<u32>) -> EmbeddedBroker {
    let broker = subject.reopen().await;
    let queue = queue();
    let options = QueueOptions { visibility: Duration::from_mins(1), max_receives };
    broker.create(&queue, options).await.unwrap();
    for body in bodies {
        send_in_memory(&broker, "g", body).await;
    }
    broker
}

async fn send_in_memory(broker: &EmbeddedBroker, group: &str, body: &str) {
    let messages = vec![OutgoingMessage::new(group, body, body)];
    broker.send_in_memory(vec![(queue(), messages)]).await.unwrap();
}

fn queue() -> QueueName {
    QueueName::parse("q.fifo".to_owned()).unwrap()
}

async fn received(broker: &EmbeddedBroker) -> Vec<(String, u32, Receipt)> {
    let received = broker.receive(&queue(), 10, Duration::ZERO).await.unwrap();
    received.into_iter().map(|message| (message.body, message.receive_count, message.receipt)).collect()
}

fn bodies(received: &[(String, u32, Receipt)]) -> Vec<(&str, u32)> {
    received.iter().map(|(body, count, _)| (body.as_str(), *count)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn message_in_memory_costs_no_write_and_ends_with_the_process() {
    let mut subject = Embedded::start().await;
    let broker = in_memory(&mut subject, &["1", "2"], None).await;
    let before = subject.writes();
    let first = received(&broker).await;
    assert_eq!(bodies(&first), [("1", 1), ("2", 1)]);
    let oldest = broker.first_in_memory().unwrap();
    broker.delete(&queue(), &[first[0].2.clone()]).await.unwrap();
    assert!(broker.first_in_memory().unwrap() > oldest);
    assert_eq!(subject.writes(), before);

    drop(broker);
    let broker = subject.reopen().await;
    assert_eq!(received(&broker).await, []);
    assert_eq!(broker.first_in_memory(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn released_message_in_memory_is_stored_with_its_count() {
    let mut subject = Embedded::start().await;
    let broker = in_memory(&mut subject, &["1", "2"], None).await;
    let first = received(&broker).await;
    broker.release(&queue(), &[first[0].2.clone(), first[1].2.clone()], Duration::ZERO).await.unwrap();
    assert_eq!(broker.first_in_memory(), None);

    drop(broker);
    let broker = subject.reopen().await;
    let again = received(&broker).await;
    assert_eq!(bodies(&again), [("1", 2), ("2", 2)]);
    let receipts: Vec<_> = again.into_iter().map(|(_, _, receipt)| receipt).collect();
    broker.delete(&queue(), &receipts).await.unwrap();

    drop(broker);
    let broker = subject.reopen().await;
    assert_eq!(received(&broker).await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn message_in_memory_becomes_a_dead_letter() {
    let mut subject = Embedded::start().await;
    let broker = in_memory(&mut subject, &["given up", "exhausted"], Some(1)).await;
    let messages = broker.receive(&queue(), 10, Duration::ZERO).await.unwrap();
    broker.dead_letter(&queue(), &messages[0], "no such session").await.unwrap();
    subject.ahead.advance(Duration::from_mins(2));
    assert_eq!(received(&broker).await, []);
    assert_eq!(broker.first_in_memory(), None);

    drop((messages, broker));
    let broker = subject.reopen().await;
    let letters = broker.receive_dead_letters(&queue(), 10).await.unwrap();
    let letters: Vec<_> = letters.iter().map(|it| (it.body.as_str(), it.cause.as_str())).collect();
    assert_eq!(
        letters,
        [("given up", "no such session"), ("exhausted", "received 1 times and never deleted")]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_message_in_memory_stores_the_rest_of_its_group() {
    let mut subject = Embedded::start().await;
    let broker = in_memory(&mut subject, &["1", "2"], None).await;
    send_in_memory(&broker, "h", "of another group").await;
    let first = broker.receive(&queue(), 1, Duration::ZERO).await.unwrap();
    assert_eq!(first[0].body, "1");
    broker.release(&queue(), &[first[0].receipt.clone()], Duration::from_secs(5)).await.unwrap();
    send_in_memory(&broker, "g", "3").await;
    let other = received(&broker).await;
    assert_eq!(bodies(&other), [("of another group", 1)]);
    broker.delete(&queue(), &[other[0].2.clone()]).await.unwrap();
    assert_eq!(broker.first_in_memory(), None, "the group does not hold the sender back");

    drop(broker);
    let broker = subject.reopen().await;
    assert_eq!(bodies(&received(&broker).await), [("1", 2), ("2", 1), ("3", 1)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stored_and_unstored_messages_of_a_group_are_all_delivered() {
    let mut subject = Embedded::start().await;
    let broker = in_memory(&mut subject, &[], None).await;
    let send_stored = async |n: u32| {
        let message = OutgoingMessage::new("g", format!("s{n}"), format!("s{n}"));
        broker.send(&queue(), vec![message]).await.unwrap();
    };
    let send_unstored = async |n: u32| send_in_memory(&broker, "g", &format!("m{n}")).await;
    let mut delivered = Vec::new();
    for n in 0..50 {
        tokio::join!(send_stored(n), send_unstored(n));
        let some = received(&broker).await;
        let receipts: Vec<_> = some.iter().map(|(_, _, receipt)| receipt.clone()).collect();
        broker.delete(&queue(), &receipts).await.unwrap();
        delivered.extend(some.into_iter().map(|(body, _, _)| body));
    }
    delivered.sort();
    let mut expected: Vec<_> = (0..50).flat_map(|n| [format!("s{n}"), format!("m{n}")]).collect();
    expected.sort();
    assert_eq!(delivered, expected);
}
