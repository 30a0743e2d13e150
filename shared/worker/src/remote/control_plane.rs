//! The worker's ports over the HTTP API.

use std::time::Duration;

use async_trait::async_trait;
use pilothouse_client::{ApiError, Client};
use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_runtime::{ClaimError, ReportError, RunEvents};
use pilothouse_wire::launch::{BrokerAccess, LaunchRequest, RunAccess, RunExit};
use pilothouse_wire::worker::{ClaimResponse, ClaimRun, ReportExit, WorkerId};
use tokio::time::timeout;

use crate::{ClaimOutcome, RunClaims};

const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) struct ControlPlane {
    client: Client,
    id: WorkerId,
}

impl ControlPlane {
    pub(super) const fn new(client: Client, id: WorkerId) -> Self {
        Self { client, id }
    }

    /// Replaces the address of an embedded server, which may be a loopback address of its own machine, by the address that this
    /// worker uses. Proxies in between may not support HTTP/2 without TLS.
    fn with_reachable_urls(&self, mut access: RunAccess) -> RunAccess {
        if let BrokerAccess::Gateway { url, http2, .. } = &mut access.broker {
            let host = self.client.base().host_str().unwrap_or_default();
            *http2 &= matches!(host, "127.0.0.1" | "[::1]" | "localhost");
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
            Ok(ClaimResponse::Claimed { access }) => {
                Ok(ClaimOutcome::Claimed(Box::new(self.with_reachable_urls(*access))))
            }
            Ok(ClaimResponse::HeldByOther {}) => Ok(ClaimOutcome::HeldByOther),
            Ok(ClaimResponse::RunIsOver {}) => Ok(ClaimOutcome::RunIsOver),
            // The run was reassigned and is no longer known for this worker.
            Err(error) if error.is_not_found() => Ok(ClaimOutcome::HeldByOther),
            Err(error) => Err(ClaimError(Box::new(error))),
        }
    }
}

#[async_trait]
impl RunEvents for ControlPlane {
    async fn report_exit(
        &self,
        session: AgentSessionId,
        run: RunId,
        exit: RunExit,
    ) -> Result<(), ReportError> {
        let report = ReportExit { session_id: session, run_id: run, exit };
        match self.client.report_exit(&self.id, &report).await {
            Ok(()) => Ok(()),
            // The control plane no longer knows the run.
            Err(error @ ApiError::Problem(_)) if error.is_not_found() => {
                tracing::warn!(%run, "the control plane no longer knows the run");
                Ok(())
            }
            Err(error) => Err(ReportError(Box::new(error))),
        }
    }

    async fn is_ready(&self) -> bool {
        match timeout(HEALTH_TIMEOUT, self.client.health()).await {
            Ok(Ok(())) => true,
            // Any other answer shows that the control plane is reachable.
            Ok(Err(error)) => !error.is_transient(),
            Err(_) => false,
        }
    }
}
