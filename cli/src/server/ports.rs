//! What the worker needs of the control plane, and how live streams learn of commits.

use std::time::Duration;

use async_trait::async_trait;
use pilothouse_broker::embedded::EmbeddedBroker;
use pilothouse_broker::{Broker, Outgoing};
use pilothouse_domain::{AgentSessionId, EnvelopeId, IdSource, RunId};
use pilothouse_functions::app::FreshIds;
use pilothouse_functions::queues;
use pilothouse_functions::stream::{Wake, Wakes};
use pilothouse_runtime::{ClaimError, ClaimOutcome, ReportError, RunClaims, RunEvents};
use pilothouse_sqlite::{Clock, Watch};
use pilothouse_store::layout::session_partition;
use pilothouse_store::sqlite::SqliteTable;
use pilothouse_store::{Claim, Store};
use pilothouse_wire::envelope::{PROTOCOL_VERSION, Signer};
use pilothouse_wire::launch::{LaunchRequest, RunExit};
use pilothouse_wire::{Envelope, RawEvent, RootSecret, Signed};

/// The name that the built-in worker claims runs under. There is one a data folder.
const WORKER: &str = "local";

/// Claims in the store.
pub(super) struct Claims {
    store: Store,
    clock: Clock,
}

impl Claims {
    pub(super) fn new(store: Store, clock: Clock) -> Self {
        Self { store, clock }
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
        Ok(if holder.worker == WORKER { ClaimOutcome::Claimed } else { ClaimOutcome::HeldByOther })
    }
}

/// Tells on the events queue that runs are over.
pub(super) struct Ends {
    broker: EmbeddedBroker,
    secret: RootSecret,
    clock: Clock,
}

impl Ends {
    pub(super) fn new(broker: EmbeddedBroker, secret: RootSecret, clock: Clock) -> Self {
        Self { broker, secret, clock }
    }
}

#[async_trait]
impl RunEvents for Ends {
    async fn exited(&self, session: AgentSessionId, run: RunId, exit: RunExit) -> Result<(), ReportError> {
        let envelope = Envelope {
            protocol_version: PROTOCOL_VERSION,
            session_id: session,
            run_id: run,
            message_id: EnvelopeId::new(FreshIds.fresh()),
            sequence: None,
            time: (self.clock)(),
            body: RawEvent::RunExited(exit),
        };
        let key = self.secret.runtime_key(run);
        let signed = Signed::seal(&envelope, self.secret.id(), Signer::Runtime, &key)
            .map_err(|e| ReportError(Box::new(e)))?;
        let message = Outgoing {
            group: session.to_string(),
            deduplication_id: format!("exit-{run}"),
            body: serde_json::to_string(&signed).map_err(|e| ReportError(Box::new(e)))?,
            delay: Duration::ZERO,
        };
        let outcome =
            self.broker.send(&queues::events(), vec![message]).await.map_err(|e| ReportError(Box::new(e)))?;
        match outcome.failed.into_iter().next() {
            None => Ok(()),
            Some((_, error)) => Err(ReportError(Box::new(error))),
        }
    }
}

/// Live streams watch the partition of their session.
pub(super) struct TableWakes(pub(super) SqliteTable);

struct PartitionWake(Watch);

impl Wakes for TableWakes {
    fn watch(&self, id: AgentSessionId) -> Box<dyn Wake> {
        Box::new(PartitionWake(self.0.watch(&session_partition(id))))
    }
}

#[async_trait]
impl Wake for PartitionWake {
    async fn grown(&mut self) -> bool {
        self.0.touched().await
    }
}
