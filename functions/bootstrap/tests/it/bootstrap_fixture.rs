use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use pilothouse_app::http::Keyring;
use pilothouse_app::placement::{WorkerAssigner as Assignment, WorkerRuntime};
use pilothouse_app::{App, Parts};
use pilothouse_bootstrap::Dispatch;
use pilothouse_bootstrap::dispatch::{FunctionDependencies, Named};
use pilothouse_functions::realtime::authorize::{Authorizer, KeySource, KeySourceError};
use pilothouse_store::system_clock;
use serde_json::Value;

pub(crate) struct BootstrapFixture {
    pub(crate) app: App,
    pub(crate) engines: pilothouse_test_support::EmbeddedEngines,
    /// Makes the next read of the clock panic.
    pub(crate) broken_clock: Arc<AtomicBool>,
}

struct Away;

#[async_trait]
impl KeySource for Away {
    async fn fetch(&self) -> Result<String, KeySourceError> {
        Err(KeySourceError("unreachable".into()))
    }
}

impl BootstrapFixture {
    pub(crate) async fn new() -> Self {
        let system = system_clock();
        let broken_clock = Arc::new(AtomicBool::new(false));
        let fails = Arc::clone(&broken_clock);
        let clock: pilothouse_store::Clock = Arc::new(move || {
            assert!(!fails.swap(false, Ordering::SeqCst), "the clock is broken");
            system()
        });
        let engines = pilothouse_test_support::EmbeddedEngines::open(system_clock()).await;
        let parts = engines.parts();
        let assignment = Assignment::new(
            parts.store.clone(),
            Arc::clone(&parts.broker),
            parts.secret.clone(),
            &parts.deadlines,
            system_clock(),
        );
        let app = App::new(Parts {
            runtime: Arc::new(WorkerRuntime::new(assignment)),
            keyring: Keyring::new("", "", HashMap::new()),
            clock,
            ..parts
        });
        Self { app, engines, broken_clock }
    }

    /// The deployed function of this name.
    pub(crate) fn function(&self, name: &str) -> Dispatch {
        Dispatch::new(self.engines(), Some(Named::find(name).expect(name)))
    }

    /// A dispatch of every function by the shape of events.
    pub(crate) fn any(&self) -> Dispatch {
        Dispatch::new(self.engines(), None)
    }

    fn engines(&self) -> FunctionDependencies {
        let authorizer = Some(Authorizer::new("https://id.example", "pilothouse", Away));
        FunctionDependencies { app: self.app.clone(), connections: None, authorizer }
    }
}

pub(crate) fn fixture(name: &str) -> Value {
    let path = format!("{}/tests/fixtures/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The response of a function to an event.
pub(crate) async fn invoke(dispatch: &Dispatch, event: &Value) -> Value {
    serde_json::to_value(dispatch.run(&event.to_string()).await.unwrap()).unwrap()
}
