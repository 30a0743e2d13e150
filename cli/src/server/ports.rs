//! What the worker needs of the control plane, and how live streams learn of commits.

use async_trait::async_trait;
use pilothouse_domain::{AgentSessionId, UserId};
use pilothouse_functions::stream::{Wake, Wakes};
use pilothouse_runtime::{ClaimError, ClaimOutcome, RunClaims};
use pilothouse_sqlite::{Clock, Watch};
use pilothouse_store::layout::{feed_partition, session_partition};
use pilothouse_store::sqlite::SqliteTable;
use pilothouse_store::{Claim, Store};
use pilothouse_wire::RootSecret;
use pilothouse_wire::launch::{Entrance, LaunchRequest};

/// The name that the built-in worker claims runs under. There is one a data folder.
const WORKER: &str = "local";

/// Claims in the store, with keys derived from the root secret.
pub(super) struct Claims {
    store: Store,
    secret: RootSecret,
    entrance: Entrance,
    clock: Clock,
}

impl Claims {
    pub(super) fn new(store: Store, secret: RootSecret, entrance: Entrance, clock: Clock) -> Self {
        Self { store, secret, entrance, clock }
    }
}

#[async_trait]
impl RunClaims for Claims {
    async fn claim(&self, request: &LaunchRequest) -> Result<ClaimOutcome, ClaimError> {
        let session = self.store.session(request.session_id).await.map_err(|e| ClaimError(Box::new(e)))?;
        if session.and_then(|s| s.run().map(|run| run.id)) != Some(request.run_id) {
            return Ok(ClaimOutcome::RunIsOver);
        }
        let claim = Claim { worker: WORKER.to_owned(), since: (self.clock)() };
        let holder = self.store.claim_run(request.session_id, request.run_id, &claim).await;
        let holder = holder.map_err(|e| ClaimError(Box::new(e)))?;
        Ok(if holder.worker == WORKER {
            ClaimOutcome::Claimed(Box::new(self.entrance.admit(&self.secret, request)))
        } else {
            ClaimOutcome::HeldByOther
        })
    }
}

/// Live streams watch the partition of their session.
pub(super) struct TableWakes(pub(super) SqliteTable);

struct PartitionWake(Watch);

impl Wakes for TableWakes {
    fn watch(&self, id: AgentSessionId) -> Box<dyn Wake> {
        Box::new(PartitionWake(self.0.watch(&session_partition(id))))
    }

    fn watch_owner(&self, owner: &UserId) -> Box<dyn Wake> {
        Box::new(PartitionWake(self.0.watch(&feed_partition(owner))))
    }
}

#[async_trait]
impl Wake for PartitionWake {
    async fn grown(&mut self) -> bool {
        self.0.touched().await
    }
}
