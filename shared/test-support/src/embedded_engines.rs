//! Embedded engines in a temporary folder.

use std::collections::HashMap;
use std::sync::Arc;

use pilothouse_app::http::Keyring;
use pilothouse_app::integrations::Integrations;
use pilothouse_app::{Parts, queues};
use pilothouse_broker::embedded::{self, EmbeddedBroker};
use pilothouse_domain::Deadlines;
use pilothouse_domain::text::AdapterName;
use pilothouse_domain::value::AllowedModels;
use pilothouse_sqlite::{Clock, Database};
use pilothouse_store::Store;
use pilothouse_store::blob::FileBlobs;
use pilothouse_store::sqlite::{self, SqliteTable};
use pilothouse_wire::RootSecret;
use tempfile::TempDir;

use crate::{InertNotifier, InertRuntime};

/// A table and all queues of a deployment in one database. Dropping the value deletes them.
pub struct EmbeddedEngines {
    pub table: SqliteTable,
    pub broker: EmbeddedBroker,
    clock: Clock,
    folder: TempDir,
}

impl EmbeddedEngines {
    /// Creates engines that use this clock.
    pub async fn open(clock: Clock) -> Self {
        let folder = TempDir::new().unwrap();
        let db = Database::open(folder.path().join("db"), &[sqlite::SCHEMA, embedded::SCHEMA]).unwrap();
        let broker = EmbeddedBroker::open(db.clone(), Arc::clone(&clock)).await.unwrap();
        queues::create(&broker).await.unwrap();
        let table = SqliteTable::new(db, Arc::clone(&clock));
        Self { table, broker, clock, folder }
    }

    /// The parts of an app on these engines. By default no key verifies tokens, no process runs, and there are no remote workers
    /// and no integrations.
    pub fn parts(&self) -> Parts {
        Parts {
            store: Store::new(Arc::new(self.table.clone())),
            blobs: Arc::new(FileBlobs::open(self.folder.path().join("blobs")).unwrap()),
            broker: Arc::new(self.broker.clone()),
            runtime: Arc::new(InertRuntime::without_workspace()),
            keyring: Keyring::new("issuer", "audience", HashMap::new()),
            secret: RootSecret::new("test", vec![7; RootSecret::MIN_BYTES]).unwrap(),
            deadlines: Deadlines::default(),
            clock: Arc::clone(&self.clock),
            change_notifier: Arc::new(InertNotifier),
            fleet: None,
            integrations: Integrations::default(),
            default_adapter: Some(AdapterName::script()),
            allowed_models: AllowedModels::default(),
        }
    }

    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }
}
