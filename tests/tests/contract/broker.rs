//! The broker's suite on the embedded engine.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pilothouse_broker::contract::{self, Subject};
use pilothouse_broker::embedded::SCHEMA;
use pilothouse_broker::{Broker, EmbeddedBroker};
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
        // The last handle closes the file; a case that kept one cannot open it again.
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
