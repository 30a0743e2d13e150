//! The runtime that runs sidecars on workers elsewhere, whoever they belong to.

use async_trait::async_trait;
use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_runtime::{AgentRuntime, LaunchError, ProcessState, RuntimeCapabilities, StopError, StopMode};
use pilothouse_store::Place;
use pilothouse_wire::launch::LaunchRequest;
use pilothouse_wire::worker::{RunState, StopOrder};

use super::dispatch::{Dispatch, DispatchError, TRIES};

/// Runs sidecars on workers (`pilothouse worker`), by central assignment.
#[derive(Clone)]
pub struct CloudRuntime {
    dispatch: Dispatch,
}

impl CloudRuntime {
    /// What [`RuntimeCapabilities::placement`] says.
    pub const PLACEMENT: &str = "workers";

    /// The runtime over an assignment.
    pub const fn new(dispatch: Dispatch) -> Self {
        Self { dispatch }
    }

    /// Whether this runtime was ever asked to run it.
    pub async fn knows(&self, run: RunId) -> Result<bool, DispatchError> {
        Ok(self.dispatch.store.placement(run).await?.is_some())
    }

    async fn state_of(&self, run: RunId) -> Result<ProcessState, DispatchError> {
        let store = &self.dispatch.store;
        let Some(placement) = store.placement(run).await? else { return Ok(ProcessState::Unknown) };
        let (key, since) = match placement.value.place {
            Place::Waiting => return Ok(ProcessState::Waiting),
            Place::Over { .. } => return Ok(ProcessState::Dead),
            Place::Given { worker, at } | Place::Claimed { worker, at } => (worker, at),
        };
        let worker = store.worker(&key).await?.map(|loaded| loaded.value);
        let Some(worker) = worker.filter(|worker| self.dispatch.is_alive(worker)) else {
            return Ok(ProcessState::Unknown);
        };
        Ok(match worker.reported.get(&run) {
            Some(RunState::Alive) => ProcessState::Alive,
            Some(RunState::Over) => ProcessState::Dead,
            // Its next heartbeat says.
            None if since + self.dispatch.pace.alive >= self.dispatch.now() => ProcessState::Alive,
            None => ProcessState::Unknown,
        })
    }

    async fn end(&self, session: AgentSessionId, run: RunId, mode: StopOrder) -> Result<(), DispatchError> {
        let dispatch = &self.dispatch;
        for attempt in 0..TRIES {
            let Some(placement) = dispatch.store.placement(run).await? else { return Ok(()) };
            let request = placement.value.request.clone();
            if request.session_id != session {
                return Ok(());
            }
            let holder = match &placement.value.place {
                Place::Waiting => None,
                Place::Given { worker, .. } => dispatch.store.worker(worker).await?,
                Place::Claimed { worker, .. } => return dispatch.tell_stop(worker, &request, mode).await,
                Place::Over { worker: Some(_), .. } => return Ok(()),
                Place::Over { worker: None, .. } => return self.never_started(&request).await,
            };
            match dispatch.close(placement, holder).await {
                Ok(()) => return self.never_started(&request).await,
                Err(DispatchError::Contended) => dispatch.pause(attempt).await,
                Err(error) => return Err(error),
            }
        }
        Err(DispatchError::Contended)
    }

    /// A run that ends before anybody started it is told to be over, as every run is; unless its session knows.
    async fn never_started(&self, request: &LaunchRequest) -> Result<(), DispatchError> {
        match self.dispatch.session_of(request).await? {
            Some(_) => self.dispatch.tell_over(request, "the run was stopped before it started").await,
            None => Ok(()),
        }
    }
}

#[async_trait]
impl AgentRuntime for CloudRuntime {
    async fn launch(&self, request: LaunchRequest) -> Result<(), LaunchError> {
        self.dispatch.launch(request).await.map_err(|error| LaunchError::Unreachable(Box::new(error)))
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
            tracing::warn!(%run, error = &error as &dyn std::error::Error, "the state of a run cannot be read");
            ProcessState::Unknown
        })
    }

    fn capabilities(&self) -> RuntimeCapabilities {
        RuntimeCapabilities { durable_workspace: true, placement: Self::PLACEMENT.to_owned() }
    }
}
