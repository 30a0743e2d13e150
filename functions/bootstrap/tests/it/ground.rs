//! What the functions of a test stand on.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use pilothouse_bootstrap::Dispatch;
use pilothouse_bootstrap::dispatch::{Ground, Named};
use pilothouse_broker::EmbeddedBroker;
use pilothouse_broker::embedded;
use pilothouse_domain::{AgentSessionId, Deadlines};
use pilothouse_functions::edge::Keyring;
use pilothouse_functions::stream::authorize::{Authorizer, KeySource, KeySourceError};
use pilothouse_functions::stream::{Wake, Wakes};
use pilothouse_functions::workers::{CloudRuntime, Dispatch as Assignment};
use pilothouse_functions::{App, Parts, queues};
use pilothouse_sqlite::Database;
use pilothouse_store::blob::FileBlobs;
use pilothouse_store::sqlite::{self, SqliteTable};
use pilothouse_store::{Store, system_clock};
use pilothouse_wire::RootSecret;
use serde_json::Value;

pub(crate) struct Stage {
    pub(crate) app: App,
    pub(crate) table: SqliteTable,
    /// Makes the next look at the clock panic.
    pub(crate) broken_clock: Arc<AtomicBool>,
    _folder: tempfile::TempDir,
}

struct NoWakes;
struct NoWake;

impl Wakes for NoWakes {
    fn watch(&self, _: AgentSessionId) -> Box<dyn Wake> {
        Box::new(NoWake)
    }
}

#[async_trait]
impl Wake for NoWake {
    async fn grown(&mut self) -> bool {
        false
    }
}

/// An issuer that is away.
struct Away;

#[async_trait]
impl KeySource for Away {
    async fn fetch(&self) -> Result<String, KeySourceError> {
        Err(KeySourceError("nobody is there".into()))
    }
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let system = system_clock();
        let broken_clock = Arc::new(AtomicBool::new(false));
        let fails = Arc::clone(&broken_clock);
        let clock: pilothouse_store::Clock = Arc::new(move || {
            assert!(!fails.swap(false, Ordering::SeqCst), "the clock is broken");
            system()
        });
        let schemas = [sqlite::SCHEMA, embedded::SCHEMA];
        let db = Database::open(folder.path().join("db"), &schemas).unwrap();
        let table = SqliteTable::new(db.clone(), system_clock());
        let engine = EmbeddedBroker::open(db, system_clock()).await.unwrap();
        queues::create(&engine).await.unwrap();
        let (state, broker) = (Store::new(Arc::new(table.clone())), Arc::new(engine));
        let secret = RootSecret::new("1", vec![7; RootSecret::MIN_BYTES]).unwrap();
        let deadlines = Deadlines::default();
        let assignment =
            Assignment::new(state.clone(), broker.clone(), secret.clone(), &deadlines, system_clock());
        let app = App::new(Parts {
            store: state,
            blobs: Arc::new(FileBlobs::open(folder.path().join("blobs")).unwrap()),
            broker,
            runtime: Arc::new(CloudRuntime::new(assignment)),
            keyring: Keyring::new("", "", HashMap::new()),
            secret,
            deadlines,
            clock,
            wakes: Arc::new(NoWakes),
            fleet: None,
            outside: pilothouse_functions::outside::Outside::default(),
        });
        Self { app, table, broken_clock, _folder: folder }
    }

    /// The function of this name, as it is deployed.
    pub(crate) fn function(&self, name: &str) -> Dispatch {
        Dispatch::new(self.ground(), Some(Named::find(name).expect(name)))
    }

    /// Every function, by the shape of events.
    pub(crate) fn any(&self) -> Dispatch {
        Dispatch::new(self.ground(), None)
    }

    fn ground(&self) -> Ground {
        let authorizer = Some(Authorizer::new("https://id.example", "pilothouse", Away));
        Ground { app: self.app.clone(), connections: None, authorizer }
    }
}

/// A recorded event.
pub(crate) fn fixture(name: &str) -> Value {
    let path = format!("{}/tests/fixtures/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// What a function answers to an event.
pub(crate) async fn answer(dispatch: &Dispatch, event: &Value) -> Value {
    serde_json::to_value(dispatch.run(&event.to_string()).await.unwrap()).unwrap()
}
