//! The runtime of the embedded server: the built-in worker, and for sessions that ask for a worker by their labels those
//! elsewhere that have registered here.

use std::sync::Arc;

use async_trait::async_trait;
use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_functions::workers::CloudRuntime;
use pilothouse_runtime::{
    AgentRuntime, LaunchError, ProcessState, RuntimeCapabilities, StopError, StopMode, Worker,
};
use pilothouse_wire::launch::LaunchRequest;

/// Runs sidecars here, or where a session asks for.
pub(super) struct HereOrElsewhere {
    pub(super) here: Arc<Worker>,
    pub(super) elsewhere: CloudRuntime,
}

#[async_trait]
impl AgentRuntime for HereOrElsewhere {
    async fn launch(&self, request: LaunchRequest) -> Result<(), LaunchError> {
        if request.worker_labels.is_empty() {
            self.here.launch(request).await
        } else {
            self.elsewhere.launch(request).await
        }
    }

    async fn stop(&self, session: AgentSessionId, run: RunId, mode: StopMode) -> Result<(), StopError> {
        // Each knows its own runs, and stops no others.
        self.here.stop(session, run, mode).await?;
        self.elsewhere.stop(session, run, mode).await
    }

    async fn state(&self, run: RunId) -> ProcessState {
        match self.here.state(run).await {
            ProcessState::Unknown => self.elsewhere.state(run).await,
            known => known,
        }
    }

    fn capabilities(&self) -> RuntimeCapabilities {
        self.here.capabilities()
    }
}
