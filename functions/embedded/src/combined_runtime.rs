//! The runtime of the embedded host: the built-in worker, and remote workers for sessions with worker labels and for agents whose
//! requirements the built-in worker does not meet.

use std::sync::Arc;

use async_trait::async_trait;
use pilothouse_app::placement::WorkerRuntime;
use pilothouse_domain::project_agent::WorkspaceOffer;
use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_runtime::{
    AgentRuntime, AtCapacity, LaunchError, ProcessState, RuntimeCapabilities, StopError, StopMode,
};
use pilothouse_wire::launch::LaunchRequest;
use pilothouse_worker::Worker;

use super::connections::Connections;

/// Runs sidecars on the built-in worker, or on a remote one that matches the session's labels.
pub(super) struct CombinedRuntime {
    pub(super) local: Arc<Worker>,
    pub(super) remote: WorkerRuntime,
    pub(super) connections: Arc<Connections>,
}

#[async_trait]
impl AgentRuntime for CombinedRuntime {
    async fn launch(&self, request: LaunchRequest) -> Result<(), LaunchError> {
        let offer = self.local.workspace().unwrap_or_default();
        let suits = request.workspace.as_ref().is_none_or(|needed| needed.unmet(&offer).is_empty());
        if request.worker_labels.is_empty() && suits {
            self.connections.admit_launch().map_err(|full| LaunchError::Unreachable(Box::new(full)))?;
            self.local.launch(request).await
        } else {
            self.remote.launch(request).await
        }
    }

    async fn stop(&self, session: AgentSessionId, run: RunId, mode: StopMode) -> Result<(), StopError> {
        // Each runtime stops only runs that it knows.
        self.local.stop(session, run, mode).await?;
        self.remote.stop(session, run, mode).await
    }

    async fn state(&self, run: RunId) -> ProcessState {
        match self.local.state(run).await {
            ProcessState::Unknown => self.remote.state(run).await,
            known => known,
        }
    }

    fn workspace(&self) -> Option<WorkspaceOffer> {
        self.local.workspace()
    }

    fn capabilities(&self) -> RuntimeCapabilities {
        self.local.capabilities()
    }

    fn admit_start(&self) -> Result<(), AtCapacity> {
        self.connections.admit_start()
    }
}
