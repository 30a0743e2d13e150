//! The runtime of the embedded host: the built-in worker, and remote workers for sessions with worker labels and for agents whose
//! requirements the built-in worker does not meet.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use pilothouse_app::placement::{AssignmentError, WorkerRuntime};
use pilothouse_domain::project_agent::WorkspaceOffer;
use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_runtime::{
    AgentRuntime, AtCapacity, LaunchError, ProcessState, RuntimeCapabilities, StopError, StopMode,
};
use pilothouse_wire::launch::LaunchRequest;
use pilothouse_worker::{Worker, has_session_folder};

use super::connections::Connections;

/// Runs sidecars on the built-in worker, or on a remote one that matches the session's labels.
pub(super) struct CombinedRuntime {
    pub(super) local: Arc<Worker>,
    pub(super) remote: WorkerRuntime,
    pub(super) connections: Arc<Connections>,
    /// The data folder of the built-in worker.
    pub(super) data: PathBuf,
}

/// Where a session has run. Its folders and its conversation are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionPlace {
    Nowhere,
    BuiltInWorker,
    /// A remote worker has its folders, or one was requested for the run.
    RemoteWorker,
}

/// Where a run starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StartPlace {
    BuiltInWorker,
    RemoteWorker,
    /// On a remote worker if one is suitable. Otherwise the built-in worker starts the run with less free disk than required: it had
    /// enough when the start was accepted, and without it the run would wait for ever.
    RemoteWorkerIfSuitable,
}

/// Where a run starts if the built-in worker offers `offer`. A session stays where it has run (decision 23), also if its requirements
/// or the offer have changed since.
fn start_place(request: &LaunchRequest, offer: &WorkspaceOffer, place: SessionPlace) -> StartPlace {
    if !request.worker_labels.is_empty() {
        return StartPlace::RemoteWorker;
    }
    let needed = request.workspace.as_ref();
    match place {
        SessionPlace::BuiltInWorker => StartPlace::BuiltInWorker,
        SessionPlace::Nowhere if needed.is_none_or(|needed| needed.unmet(offer).is_empty()) => {
            StartPlace::BuiltInWorker
        }
        SessionPlace::Nowhere if needed.is_some_and(|needed| needed.unmet_except_disk(offer).is_empty()) => {
            StartPlace::RemoteWorkerIfSuitable
        }
        SessionPlace::Nowhere | SessionPlace::RemoteWorker => StartPlace::RemoteWorker,
    }
}

impl CombinedRuntime {
    async fn place_of(&self, request: &LaunchRequest) -> Result<SessionPlace, AssignmentError> {
        let LaunchRequest { session_id, run_id, .. } = request;
        if self.remote.knows(*run_id).await? || self.remote.is_home_of(*session_id).await? {
            return Ok(SessionPlace::RemoteWorker);
        }
        Ok(if self.has_folders_of(*session_id) { SessionPlace::BuiltInWorker } else { SessionPlace::Nowhere })
    }
}

#[async_trait]
impl AgentRuntime for CombinedRuntime {
    async fn launch(&self, request: LaunchRequest) -> Result<(), LaunchError> {
        let unreachable = |error: AssignmentError| LaunchError::Unreachable(Box::new(error));
        let place = self.place_of(&request).await.map_err(unreachable)?;
        let offer = self.local.workspace().unwrap_or_default();
        let is_local = match start_place(&request, &offer, place) {
            StartPlace::BuiltInWorker => true,
            StartPlace::RemoteWorker => false,
            StartPlace::RemoteWorkerIfSuitable => {
                !self.remote.has_suitable_worker(&request).await.map_err(unreachable)?
            }
        };
        if is_local {
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

    fn has_folders_of(&self, session: AgentSessionId) -> bool {
        has_session_folder(&self.data, session)
    }

    fn capabilities(&self) -> RuntimeCapabilities {
        self.local.capabilities()
    }

    fn admit_start(&self) -> Result<(), AtCapacity> {
        self.connections.admit_start()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use pilothouse_domain::project_agent::{ResourceLimits, SandboxCapability, WorkspaceRequirements};
    use pilothouse_test_support::launch_request;

    use super::*;

    fn request(capability: SandboxCapability, labels: &[(&str, &str)]) -> LaunchRequest {
        LaunchRequest {
            worker_labels: labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            authorize_tools: true,
            workspace: Some(Box::new(WorkspaceRequirements {
                mounts: Vec::new(),
                capabilities: BTreeSet::from([capability]),
                resource_limits: None,
                base_image: None,
            })),
            ..launch_request()
        }
    }

    #[test]
    fn session_stays_where_it_has_run() {
        use SandboxCapability::{Git, Gpu};
        use SessionPlace::{BuiltInWorker, Nowhere, RemoteWorker};
        let offer = WorkspaceOffer { capabilities: BTreeSet::from([Git]), ..WorkspaceOffer::default() };
        let is_here =
            |request: &LaunchRequest, place| start_place(request, &offer, place) == StartPlace::BuiltInWorker;
        let (suitable, unsuitable) = (request(Git, &[]), request(Gpu, &[]));
        assert!(is_here(&suitable, Nowhere) && !is_here(&unsuitable, Nowhere));
        assert!(is_here(&suitable, BuiltInWorker) && is_here(&unsuitable, BuiltInWorker));
        assert!(!is_here(&suitable, RemoteWorker) && !is_here(&unsuitable, RemoteWorker));
        assert!(!is_here(&request(Git, &[("os", "mac")]), Nowhere), "labels select a remote worker");
    }

    #[test]
    fn run_that_lacks_only_disk_prefers_a_suitable_remote_worker() {
        use SandboxCapability::{Git, Gpu};
        use SessionPlace::{BuiltInWorker, Nowhere};
        let offer = WorkspaceOffer {
            capabilities: BTreeSet::from([Git]),
            free_disk_mb: Some(99),
            ..WorkspaceOffer::default()
        };
        let needing = |capability, disk_mb| {
            let mut request = request(capability, &[]);
            let limits = ResourceLimits { disk_mb: Some(disk_mb), ..ResourceLimits::default() };
            request.workspace.as_mut().unwrap().resource_limits = Some(limits);
            request
        };
        assert_eq!(start_place(&needing(Git, 99), &offer, Nowhere), StartPlace::BuiltInWorker);
        assert_eq!(start_place(&needing(Git, 100), &offer, Nowhere), StartPlace::RemoteWorkerIfSuitable);
        assert_eq!(start_place(&needing(Gpu, 100), &offer, Nowhere), StartPlace::RemoteWorker);
        assert_eq!(start_place(&needing(Git, 100), &offer, BuiltInWorker), StartPlace::BuiltInWorker);
    }
}
