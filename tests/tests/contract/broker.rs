//! Runs the broker suite on the embedded engine.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pilothouse_broker::contract::{self, Subject};
use pilothouse_broker::embedded::SCHEMA;
use pilothouse_broker::{Broker, EmbeddedBroker, OutgoingMessage, QueueName, QueueOptions};
use pilothouse_sqlite::Database;
use tempfile::TempDir;

use crate::clock::Ahead;

struct Embedded {
    dir: TempDir,
    ahead: Ahead,
    broker: Option<Arc<dyn Broker>>,
}

impl Embedded {
    async fn start() -> Self {
        let dir = TempDir::new().unwrap();
        let mut subject = Self { dir, ahead: Ahead::default(), broker: None };
        subject.restart().await;
        subject
    }
}

#[async_trait]
impl Subject for Embedded {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::clone(self.broker.as_ref().unwrap())
    }

    async fn restart(&mut self) {
        // A case must not keep a handle, because the file must be closed before it is opened again.
        self.broker = None;
        let db = Database::open(self.dir.path().join("broker.db"), &[SCHEMA]).unwrap();
        self.broker = Some(Arc::new(EmbeddedBroker::open(db, self.ahead.clock()).await.unwrap()));
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
    let queue = QueueName::parse("q.fifo".to_owned()).unwrap();
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
