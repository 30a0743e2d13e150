//! What the functions of a test stand on.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use pilothouse_bootstrap::Dispatch;
use pilothouse_bootstrap::dispatch::{Ground, Named};
use pilothouse_functions::edge::Keyring;
use pilothouse_functions::stream::authorize::{Authorizer, KeySource, KeySourceError};
use pilothouse_functions::workers::{CloudRuntime, Dispatch as Assignment};
use pilothouse_functions::{App, Parts};
use pilothouse_store::system_clock;
use serde_json::Value;

pub(crate) struct Stage {
    pub(crate) app: App,
    pub(crate) ground: pilothouse_stage::Ground,
    /// Makes the next look at the clock panic.
    pub(crate) broken_clock: Arc<AtomicBool>,
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
        let system = system_clock();
        let broken_clock = Arc::new(AtomicBool::new(false));
        let fails = Arc::clone(&broken_clock);
        let clock: pilothouse_store::Clock = Arc::new(move || {
            assert!(!fails.swap(false, Ordering::SeqCst), "the clock is broken");
            system()
        });
        let ground = pilothouse_stage::Ground::open(system_clock()).await;
        let parts = ground.parts();
        let assignment = Assignment::new(
            parts.store.clone(),
            Arc::clone(&parts.broker),
            parts.secret.clone(),
            &parts.deadlines,
            system_clock(),
        );
        let app = App::new(Parts {
            runtime: Arc::new(CloudRuntime::new(assignment)),
            keyring: Keyring::new("", "", HashMap::new()),
            clock,
            ..parts
        });
        Self { app, ground, broken_clock }
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
