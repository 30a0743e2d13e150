use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use pilothouse_broker::Broker;
use pilothouse_domain::text::AdapterName;
use pilothouse_domain::value::AllowedModels;
use pilothouse_domain::{Deadlines, DomainContext, IdSource, Timestamp, UserId};
use pilothouse_runtime::{AgentRuntime, CredentialVendor, RuntimeCapabilities};
use pilothouse_store::Store;
use pilothouse_store::blob::Blobs;
use pilothouse_wire::RootSecret;
use pilothouse_wire::launch::RunAccessIssuer;
use uuid::Uuid;

use crate::change_notifier::ChangeNotifier;
use crate::disk::DiskSpace;
use crate::drafts::Drafts;
use crate::integrations::Integrations;
use crate::keyring::Keyring;
use crate::problem::Problem;

/// The target of trace events that carry measurements: `commands`, `conflicts`, `events_applied`, `events_quarantined`,
/// `events_merged`, `event_lag_ms`. Only subscribers that produce metrics use them.
pub const METRICS: &str = "pilothouse::metrics";

pub struct Parts {
    pub store: Store,
    pub blobs: Arc<dyn Blobs>,
    pub broker: Arc<dyn Broker>,
    pub runtime: Arc<dyn AgentRuntime>,
    pub keyring: Keyring,
    pub secret: RootSecret,
    pub deadlines: Deadlines,
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// Notifies live streams of new journal entries.
    pub change_notifier: Arc<dyn ChangeNotifier>,
    /// None: the deployment has no remote workers and sidecars.
    pub fleet: Option<Fleet>,
    pub integrations: Integrations,
    /// The adapter of sessions that name none, unless their template does (decision 20).
    pub default_adapter: Option<AdapterName>,
    /// The models that the operator allows.
    pub allowed_models: AllowedModels,
}

pub struct Fleet {
    pub run_access_issuer: RunAccessIssuer,
    /// Issues cloud credentials. None: sidecars and workers use the gateway.
    pub vendor: Option<Arc<dyn CredentialVendor>>,
    /// The owners whose workers may run the sessions of all owners.
    pub operators: BTreeSet<UserId>,
}

/// The dependencies of the functions, of which [`Parts`] has the values. Clones share them.
#[derive(Clone)]
pub struct App {
    parts: Arc<Parts>,
    disk: DiskSpace,
    drafts: Drafts,
}

impl App {
    /// Creates an app. Its runtime determines whether sessions hibernate and whether runs have a lease (decisions 13, 23).
    pub fn new(mut parts: Parts) -> Self {
        let RuntimeCapabilities { durable_workspace, lease, .. } = parts.runtime.capabilities();
        parts.deadlines = Deadlines { durable_workspace, lease, ..parts.deadlines };
        Self { parts: Arc::new(parts), disk: DiskSpace::default(), drafts: Drafts::default() }
    }

    pub const fn disk(&self) -> &DiskSpace {
        &self.disk
    }

    pub const fn drafts(&self) -> &Drafts {
        &self.drafts
    }

    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Fails with [`Problem::NotFound`] if the deployment has no remote workers and sidecars.
    pub fn fleet(&self) -> Result<&Fleet, Problem> {
        let fleet = self.parts.fleet.as_ref();
        fleet.ok_or_else(|| Problem::NotFound("this server has no remote workers".to_owned()))
    }

    /// A domain context at the current time, with ids from `ids`.
    pub fn domain_context<'a>(&self, ids: &'a mut FreshIds) -> DomainContext<'a> {
        DomainContext::new(self.now(), self.deadlines, ids)
    }
}

impl Deref for App {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.parts
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub struct FreshIds;

impl IdSource for FreshIds {
    fn fresh(&mut self) -> Uuid {
        Uuid::now_v7()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_ids_have_version_7_and_sort_by_creation() {
        let ids: Vec<_> = (0..100).map(|_| FreshIds.fresh()).collect();
        assert!(ids.iter().all(|id| id.get_version_num() == 7), "{ids:?}");
        assert!(ids.is_sorted(), "{ids:?}");
    }
}
