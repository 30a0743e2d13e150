//! What a function has at hand.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use pilothouse_broker::Broker;
use pilothouse_domain::{Deadlines, IdSource, Occasion, Timestamp, UserId};
use pilothouse_runtime::{AgentRuntime, CredentialVendor};
use pilothouse_store::Store;
use pilothouse_store::blob::Blobs;
use pilothouse_wire::RootSecret;
use pilothouse_wire::launch::Entrance;
use uuid::Uuid;

use crate::edge::{Keyring, Problem};
use crate::outside::Outside;
use crate::stream::Wakes;

/// The target of events that count something, at the level TRACE: `commands`, `conflicts`, `events_applied`,
/// `events_quarantined`, `event_lag_ms`. Nobody reads them but who makes metrics of them.
pub const METRICS: &str = "pilothouse::metrics";

/// The parts that an [`App`] is made of. A profile chooses the engines behind them.
pub struct Parts {
    /// State.
    pub store: Store,
    /// Large bodies.
    pub blobs: Arc<dyn Blobs>,
    /// Queues.
    pub broker: Arc<dyn Broker>,
    /// What runs sidecars.
    pub runtime: Arc<dyn AgentRuntime>,
    /// Who may sign tokens.
    pub keyring: Keyring,
    /// What keys are derived from.
    pub secret: RootSecret,
    /// Limits of waiting.
    pub deadlines: Deadlines,
    /// The clock.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// Tells live streams that a journal has grown.
    pub wakes: Arc<dyn Wakes>,
    /// What those are served with that run sidecars elsewhere; none: nobody does.
    pub fleet: Option<Fleet>,
    /// The ways outside: a bus, a topic, endpoints of owners.
    pub outside: Outside,
}

/// What workers and sidecars elsewhere are served with.
pub struct Fleet {
    /// Where runs are let in.
    pub entrance: Entrance,
    /// Hands out credentials of the cloud; none: sidecars and workers go through the gateway.
    pub vendor: Option<Arc<dyn CredentialVendor>>,
    /// Whose workers may serve everybody.
    pub operators: BTreeSet<UserId>,
}

/// What a function has at hand; clones are the same.
#[derive(Clone)]
pub struct App(Arc<Parts>);

impl App {
    /// An app of these parts. Whether sessions hibernate is its runtime's to say (ruling 23).
    pub fn new(mut parts: Parts) -> Self {
        parts.deadlines.durable_workspace = parts.runtime.capabilities().durable_workspace;
        Self(Arc::new(parts))
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// What workers elsewhere are served with.
    ///
    /// # Errors
    /// [`Problem::NotFound`] where nobody may run sidecars elsewhere.
    pub fn fleet(&self) -> Result<&Fleet, Problem> {
        let fleet = self.0.fleet.as_ref();
        fleet.ok_or_else(|| Problem::NotFound("this server has no workers elsewhere".to_owned()))
    }

    /// An occasion now, with fresh ids from `ids`.
    pub fn occasion<'a>(&self, ids: &'a mut FreshIds) -> Occasion<'a> {
        Occasion::new(self.now(), self.deadlines, ids)
    }
}

impl Deref for App {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.0
    }
}

/// Fresh `UUIDv7`s.
#[derive(Debug, Clone, Copy, Default)]
pub struct FreshIds;

impl IdSource for FreshIds {
    fn fresh(&mut self) -> Uuid {
        Uuid::now_v7()
    }
}
