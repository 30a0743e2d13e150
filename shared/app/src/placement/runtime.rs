use async_trait::async_trait;
use pilothouse_domain::{AgentSessionId, DomainContext, RunId};
use pilothouse_runtime::{AgentRuntime, LaunchError, ProcessState, RuntimeCapabilities, StopError, StopMode};
use pilothouse_store::{Loaded, Placement, PlacementState, WorkerKey, WorkerRecord};
use pilothouse_wire::launch::LaunchRequest;
use pilothouse_wire::worker::{RunState, StopOrder};

use crate::placement::changes;
use crate::placement::{AssignmentError, WorkerAssigner};
use crate::unit_of_work::{Decision, RetryPolicy};

/// Runs sidecars on remote workers (`pilothouse worker`).
#[derive(Clone)]
pub struct WorkerRuntime {
    assigner: WorkerAssigner,
}

/// A run that is stopped.
struct StopState {
    placement: Loaded<Placement>,
    /// The worker that the run is assigned to. None: a worker has claimed the run, or none has it.
    holder: Option<Loaded<WorkerRecord>>,
}

/// The message that follows a stop.
enum StopFollowUp {
    Nothing,
    /// The worker has claimed the run, and ends it.
    SendOrder {
        worker: WorkerKey,
        request: LaunchRequest,
    },
    /// The run never starts.
    ReportNeverStarted(LaunchRequest),
}

impl WorkerRuntime {
    pub const PLACEMENT: &str = "workers";

    pub const fn new(assigner: WorkerAssigner) -> Self {
        Self { assigner }
    }

    pub async fn knows(&self, run: RunId) -> Result<bool, AssignmentError> {
        Ok(self.assigner.store.placement(run).await?.is_some())
    }

    /// Whether a registered worker has the folders of the session (decision 23).
    pub async fn is_home_of(&self, session: AgentSessionId) -> Result<bool, AssignmentError> {
        Ok(self.assigner.home_of(session).await?.is_some())
    }

    /// Whether a registered worker suits a run, whatever its load. Unreachable workers count.
    pub async fn has_suitable_worker(&self, request: &LaunchRequest) -> Result<bool, AssignmentError> {
        self.assigner.has_suitable_worker(request).await
    }

    async fn state_of(&self, run: RunId) -> Result<ProcessState, AssignmentError> {
        let store = &self.assigner.store;
        let Some(placement) = store.placement(run).await? else { return Ok(ProcessState::Unknown) };
        let is_claimed = matches!(placement.value.place, PlacementState::Claimed { .. });
        let (key, since) = match placement.value.place {
            PlacementState::Waiting => return Ok(ProcessState::Waiting),
            PlacementState::Ended { .. } => return Ok(ProcessState::Dead),
            PlacementState::Assigned { worker, at } | PlacementState::Claimed { worker, at } => (worker, at),
        };
        let worker = store.worker(&key).await?.map(|loaded| loaded.value);
        let Some(worker) = worker.filter(|worker| self.assigner.is_alive(worker)) else {
            // Another worker receives an unclaimed run as soon as one is available.
            return Ok(if is_claimed { ProcessState::Unreachable } else { ProcessState::Waiting });
        };
        Ok(match worker.reported.get(&run) {
            Some(RunState::Alive) => ProcessState::Alive,
            Some(RunState::Over) => ProcessState::Dead,
            None if since + self.assigner.heartbeats.alive >= self.assigner.now() => ProcessState::Alive,
            None => ProcessState::Unknown,
        })
    }

    async fn end(&self, session: AgentSessionId, run: RunId, mode: StopOrder) -> Result<(), AssignmentError> {
        let assigner = &self.assigner;
        let load = async || self.load_stop(session, run).await;
        let decide = |state: Option<StopState>, ctx: &mut DomainContext<'_>| {
            let Some(StopState { placement, holder }) = state else {
                return Ok(Decision::Unchanged(StopFollowUp::Nothing));
            };
            let request = placement.value.request.clone();
            match &placement.value.place {
                PlacementState::Claimed { worker, .. } => {
                    let worker = worker.clone();
                    Ok(Decision::Unchanged(StopFollowUp::SendOrder { worker, request }))
                }
                PlacementState::Ended { worker: Some(_), .. } => {
                    Ok(Decision::Unchanged(StopFollowUp::Nothing))
                }
                PlacementState::Ended { worker: None, .. }
                | PlacementState::Waiting
                | PlacementState::Assigned { .. } => {
                    let never_started = StopFollowUp::ReportNeverStarted(request);
                    Ok(match changes::close(placement, holder, ctx.now)? {
                        Some(commit) => Decision::Commit(commit, never_started),
                        None => Decision::Unchanged(never_started),
                    })
                }
            }
        };
        match assigner.unit_of_work().run(RetryPolicy::EVENT, load, decide).await? {
            StopFollowUp::Nothing => Ok(()),
            StopFollowUp::SendOrder { worker, request } => assigner.send_stop(&worker, &request, mode).await,
            StopFollowUp::ReportNeverStarted(request) => self.report_never_started(&request).await,
        }
    }

    /// Loads a run of a session.
    async fn load_stop(
        &self,
        session: AgentSessionId,
        run: RunId,
    ) -> Result<Option<StopState>, AssignmentError> {
        let store = &self.assigner.store;
        let placement = store.placement(run).await?;
        let Some(placement) = placement.filter(|it| it.value.request.session_id == session) else {
            return Ok(None);
        };
        let holder = match &placement.value.place {
            PlacementState::Assigned { worker, .. } => store.worker(worker).await?,
            _ => None,
        };
        Ok(Some(StopState { placement, holder }))
    }

    /// Reports the end of a run that never started, unless its session has already moved on.
    async fn report_never_started(&self, request: &LaunchRequest) -> Result<(), AssignmentError> {
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
