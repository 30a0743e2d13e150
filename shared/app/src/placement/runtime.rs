//! The runtime that runs sidecars on remote workers.

use async_trait::async_trait;
use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_runtime::{AgentRuntime, LaunchError, ProcessState, RuntimeCapabilities, StopError, StopMode};
use pilothouse_store::PlacementState;
use pilothouse_wire::launch::LaunchRequest;
use pilothouse_wire::worker::{RunState, StopOrder};

use crate::placement::{AssignmentError, WorkerAssigner};
use crate::unit_of_work::RetryPolicy;

/// Runs sidecars on workers (`pilothouse worker`).
#[derive(Clone)]
pub struct WorkerRuntime {
    assigner: WorkerAssigner,
}

impl WorkerRuntime {
    /// The value of [`RuntimeCapabilities::placement`].
    pub const PLACEMENT: &str = "workers";

    /// Creates a runtime that assigns runs by `assigner`.
    pub const fn new(assigner: WorkerAssigner) -> Self {
        Self { assigner }
    }

    /// Whether this runtime has a placement for the run.
    pub async fn knows(&self, run: RunId) -> Result<bool, AssignmentError> {
        Ok(self.assigner.store.placement(run).await?.is_some())
    }

    async fn state_of(&self, run: RunId) -> Result<ProcessState, AssignmentError> {
        let store = &self.assigner.store;
        let Some(placement) = store.placement(run).await? else { return Ok(ProcessState::Unknown) };
        let is_claimed = matches!(placement.value.place, PlacementState::Claimed { .. });
        let (key, since) = match placement.value.place {
            PlacementState::Waiting => return Ok(ProcessState::Waiting),
            PlacementState::Over { .. } => return Ok(ProcessState::Dead),
            PlacementState::Given { worker, at } | PlacementState::Claimed { worker, at } => (worker, at),
        };
        let worker = store.worker(&key).await?.map(|loaded| loaded.value);
        let Some(worker) = worker.filter(|worker| self.assigner.is_alive(worker)) else {
            // Another worker receives an unclaimed run as soon as one is available.
            return Ok(if is_claimed { ProcessState::Unreachable } else { ProcessState::Waiting });
        };
        Ok(match worker.reported.get(&run) {
            Some(RunState::Alive) => ProcessState::Alive,
            Some(RunState::Over) => ProcessState::Dead,
            // The next heartbeat reports the state.
            None if since + self.assigner.heartbeats.alive >= self.assigner.now() => ProcessState::Alive,
            None => ProcessState::Unknown,
        })
    }

    async fn end(&self, session: AgentSessionId, run: RunId, mode: StopOrder) -> Result<(), AssignmentError> {
        let assigner = &self.assigner;
        let attempt = async || {
            let Some(placement) = assigner.store.placement(run).await? else { return Ok(()) };
            let request = placement.value.request.clone();
            if request.session_id != session {
                return Ok(());
            }
            let holder = match &placement.value.place {
                PlacementState::Waiting => None,
                PlacementState::Given { worker, .. } => assigner.store.worker(worker).await?,
                PlacementState::Claimed { worker, .. } => {
                    return assigner.send_stop(worker, &request, mode).await;
                }
                PlacementState::Over { worker: Some(_), .. } => return Ok(()),
                PlacementState::Over { worker: None, .. } => return self.never_started(&request).await,
            };
            assigner.close(placement, holder).await?;
            self.never_started(&request).await
        };
        RetryPolicy::EVENT.retry(attempt).await
    }

    /// Reports the end of a run that never started, unless its session has already moved on.
    async fn never_started(&self, request: &LaunchRequest) -> Result<(), AssignmentError> {
        match self.assigner.session_of(request).await? {
            Some(_) => self.assigner.report_over(request, "the run was stopped before it started").await,
            None => Ok(()),
        }
    }
}

#[async_trait]
impl AgentRuntime for WorkerRuntime {
    async fn launch(&self, request: LaunchRequest) -> Result<(), LaunchError> {
        self.assigner.launch(request).await.map_err(|error| LaunchError::Unreachable(Box::new(error)))
    }

    async fn stop(&self, session: AgentSessionId, run: RunId, mode: StopMode) -> Result<(), StopError> {
        let order = match mode {
            StopMode::Terminate => StopOrder::Terminate,
            StopMode::Kill => StopOrder::Kill,
        };
        let ended = self.end(session, run, order).await;
        ended.map_err(|error| StopError::Unreachable { run, source: Box::new(error) })
    }

    async fn state(&self, run: RunId) -> ProcessState {
        self.state_of(run).await.unwrap_or_else(|error| {
            tracing::warn!(%run, error = &error as &dyn std::error::Error, "failed to read the state of a run");
            ProcessState::Unreachable
        })
    }

    fn capabilities(&self) -> RuntimeCapabilities {
        RuntimeCapabilities { durable_workspace: true, lease: None, placement: Self::PLACEMENT.to_owned() }
    }
}
