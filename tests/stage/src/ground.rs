//! Embedded engines in a folder of their own.

use std::collections::HashMap;
use std::sync::Arc;

use pilothouse_broker::embedded::{self, EmbeddedBroker};
use pilothouse_domain::Deadlines;
use pilothouse_functions::edge::Keyring;
use pilothouse_functions::outside::Outside;
use pilothouse_functions::{Parts, queues};
use pilothouse_sqlite::{Clock, Database};
use pilothouse_store::Store;
use pilothouse_store::blob::FileBlobs;
use pilothouse_store::sqlite::{self, SqliteTable};
use pilothouse_wire::RootSecret;
use tempfile::TempDir;

use crate::{NoRuntime, NoWakes};

/// Table and queues in one database, with all queues of a deployment. They are gone with it.
pub struct Ground {
    /// The table.
    pub table: SqliteTable,
    /// The queues.
    pub broker: EmbeddedBroker,
    clock: Clock,
    folder: TempDir,
}

impl Ground {
    /// New ones, which go by this clock.
    pub async fn open(clock: Clock) -> Self {
        let folder = TempDir::new().unwrap();
        let db = Database::open(folder.path().join("db"), &[sqlite::SCHEMA, embedded::SCHEMA]).unwrap();
        let broker = EmbeddedBroker::open(db.clone(), Arc::clone(&clock)).await.unwrap();
        queues::create(&broker).await.unwrap();
        let table = SqliteTable::new(db, Arc::clone(&clock));
        Self { table, broker, clock, folder }
    }

    /// The parts of an app on this ground, for a test to replace those that it is about. Nobody signs tokens, nothing
    /// runs, nobody runs sidecars elsewhere, and no way leads outside.
    pub fn parts(&self) -> Parts {
        Parts {
            store: Store::new(Arc::new(self.table.clone())),
            blobs: Arc::new(FileBlobs::open(self.folder.path().join("blobs")).unwrap()),
            broker: Arc::new(self.broker.clone()),
            runtime: Arc::new(NoRuntime::nowhere()),
            keyring: Keyring::new("issuer", "audience", HashMap::new()),
            secret: RootSecret::new("test", vec![7; RootSecret::MIN_BYTES]).unwrap(),
            deadlines: Deadlines::default(),
            clock: Arc::clone(&self.clock),
            wakes: Arc::new(NoWakes),
            fleet: None,
            outside: Outside::default(),
        }
    }

    /// Its folder; what stands there is gone with it.
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }
}
