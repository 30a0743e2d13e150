//! What the worker needs of its control plane, over the API.

use async_trait::async_trait;
use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_runtime::{ClaimError, ClaimOutcome, ReportError, RunClaims, RunEvents};
use pilothouse_wire::launch::{BrokerAccess, LaunchRequest, RunAccess, RunExit};
use pilothouse_wire::worker::{ClaimAnswer, ClaimRun, ReportExit, WorkerId};

use crate::client::{ApiError, Client};

/// The control plane, as one worker sees it.
pub(super) struct ControlPlane {
    client: Client,
    id: WorkerId,
}

impl ControlPlane {
    pub(super) const fn new(client: Client, id: WorkerId) -> Self {
        Self { client, id }
    }

    /// An embedded server knows itself by an address of its own machine: from here it is where this worker reaches it.
    fn seen_from_here(&self, mut access: RunAccess) -> RunAccess {
        if let BrokerAccess::Gateway { url, .. } = &mut access.broker {
            let here = self.client.base().as_str().trim_end_matches('/');
            here.clone_into(url);
            here.clone_into(&mut access.agent_api.url);
        }
        access
    }
}

#[async_trait]
impl RunClaims for ControlPlane {
    async fn claim(&self, request: &LaunchRequest) -> Result<ClaimOutcome, ClaimError> {
        match self.client.claim_run(&self.id, &ClaimRun { run_id: request.run_id }).await {
            Ok(ClaimAnswer::Claimed { access }) => {
                Ok(ClaimOutcome::Claimed(Box::new(self.seen_from_here(*access))))
            }
            Ok(ClaimAnswer::HeldByOther {}) => Ok(ClaimOutcome::HeldByOther),
            Ok(ClaimAnswer::RunIsOver {}) => Ok(ClaimOutcome::RunIsOver),
            // Not its business any more: it was taken away and forgotten.
            Err(error) if error.is_not_found() => Ok(ClaimOutcome::HeldByOther),
            Err(error) => Err(ClaimError(Box::new(error))),
        }
    }
}

#[async_trait]
impl RunEvents for ControlPlane {
    async fn exited(&self, session: AgentSessionId, run: RunId, exit: RunExit) -> Result<(), ReportError> {
        let report = ReportExit { session_id: session, run_id: run, exit };
        match self.client.report_exit(&self.id, &report).await {
            Ok(()) => Ok(()),
            // Nobody waits for this any more.
            Err(error @ ApiError::Problem(_)) if error.is_not_found() => {
                tracing::warn!(%run, "the control plane does not know this run any more");
                Ok(())
            }
            Err(error) => Err(ReportError(Box::new(error))),
        }
    }
}
