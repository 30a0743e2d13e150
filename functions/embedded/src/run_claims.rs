use async_trait::async_trait;
use pilothouse_runtime::ClaimError;
use pilothouse_sqlite::Clock;
use pilothouse_store::{Claim, Store};
use pilothouse_wire::RootSecret;
use pilothouse_wire::launch::{LaunchRequest, RunAccessIssuer};
use pilothouse_worker::{ClaimOutcome, RunClaims};

/// There is one worker for each data folder.
const WORKER: &str = "local";

/// Claims runs in the store, and derives their keys from the root secret.
pub(super) struct StoreRunClaims {
    store: Store,
    secret: RootSecret,
    run_access_issuer: RunAccessIssuer,
    clock: Clock,
}

impl StoreRunClaims {
    pub(super) fn new(
        store: Store,
        secret: RootSecret,
        run_access_issuer: RunAccessIssuer,
        clock: Clock,
    ) -> Self {
        Self { store, secret, run_access_issuer, clock }
    }
}

#[async_trait]
impl RunClaims for StoreRunClaims {
    async fn claim(&self, request: &LaunchRequest) -> Result<ClaimOutcome, ClaimError> {
        let session = self.store.session(request.session_id).await.map_err(|e| ClaimError(Box::new(e)))?;
        if session.and_then(|s| s.run().map(|run| run.id)) != Some(request.run_id) {
            return Ok(ClaimOutcome::RunIsOver);
        }
        let claim = Claim { worker: WORKER.to_owned(), since: (self.clock)() };
        let holder = self.store.claim_run(request.session_id, request.run_id, &claim).await;
        let holder = holder.map_err(|e| ClaimError(Box::new(e)))?;
        Ok(if holder.worker == WORKER {
            ClaimOutcome::Claimed(Box::new(self.run_access_issuer.issue(&self.secret, request)))
        } else {
            ClaimOutcome::HeldByOther
        })
    }
}
