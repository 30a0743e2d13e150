use std::time::Duration;

use async_trait::async_trait;
use pilothouse_domain::project_agent::WorkspaceOffer;
use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_wire::launch::LaunchRequest;

/// Runs sidecars (S0 8.11 `IAgentRuntime`; decisions 7, 12 to 14).
///
/// The end of a run is reported by a `run_exited` event, never by a method of this port.
#[async_trait]
pub trait AgentRuntime: Send + Sync {
    /// Accepts a request to run a sidecar. The process may start later, or not at all if the run is over or another worker has
    /// claimed it. Launching a run again starts nothing and succeeds.
    ///
    /// After an error nothing was started, and the request has to be repeated.
    async fn launch(&self, request: LaunchRequest) -> Result<(), LaunchError>;

    /// Sends a signal to the processes of a run and returns at once. Succeeds if the run is over or unknown to this runtime.
    async fn stop(&self, session: AgentSessionId, run: RunId, mode: StopMode) -> Result<(), StopError>;

    /// State of a run's process. The control plane queries it when a command is not received (decision 12).
    async fn state(&self, run: RunId) -> ProcessState;

    /// Properties of this runtime that sessions depend on.
    fn capabilities(&self) -> RuntimeCapabilities;

    /// What the place of this runtime offers to agents. `None` if its workers announce that themselves.
    fn workspace(&self) -> Option<WorkspaceOffer> {
        None
    }

    /// Whether this place has the folders of a session, so that the session stays here (decision 23). Always false for a runtime whose
    /// workers are recorded with the sessions.
    fn has_folders_of(&self, _session: AgentSessionId) -> bool {
        false
    }

    /// Reserves room for a session that has a slot, before any of its data is stored.
    fn admit_start(&self) -> Result<(), AtCapacity> {
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct AtCapacity {
    /// Names the resource that lacks capacity, and the remedy.
    pub message: &'static str,
    pub retry_after: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMode {
    /// Ask: the sidecar ends its agent, publishes its spool, and exits (`SIGTERM`).
    Terminate,
    /// Kill the sidecar and everything that it started (`SIGKILL`).
    Kill,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessState {
    /// Running, or about to start.
    Alive,
    /// Waiting for capacity; launched when there is some (decision 23).
    Waiting,
    /// Ended, or failed to start.
    Dead,
    /// This runtime has no process for the run, and cannot have lost track of one.
    Unknown,
    /// The machine of the process cannot be reached.
    Unreachable,
}

/// Properties of a runtime (decision 23).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeCapabilities {
    /// Whether the working directory, the session home and the spool outlive a run. If not, sessions do not hibernate.
    pub durable_workspace: bool,
    /// How long a sidecar keeps running without an accepted publish before its guard ends it (decision 13). `None` for no limit:
    /// the worker prevents a second run of the session.
    pub lease: Option<Duration>,
    /// Where this runtime runs sidecars. It is stored with a session, which can continue only there.
    pub placement: String,
}

#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error("the runtime is shutting down")]
    Stopping,
    /// It is unknown whether the run was claimed.
    #[error("failed to claim the run")]
    Claim(#[source] ClaimError),
    /// The folders of the run could not be created.
    #[error("failed to prepare the run")]
    Prepare(#[source] std::io::Error),
    /// Processes of an earlier run of the session are still running; they are being stopped.
    #[error("processes of an earlier run of session {session} have not ended yet")]
    SessionBusy { session: AgentSessionId },
    #[error("failed to pass on the launch")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// The process is not verified yet: it has not written its process id, or the id cannot be read. Nothing was signalled; retry.
    #[error("the process of run {run} cannot be verified yet")]
    Unverified { run: RunId },
    #[error("failed to signal the processes of run {run}")]
    Signal {
        run: RunId,
        #[source]
        source: std::io::Error,
    },
    #[error("failed to stop run {run}")]
    Unreachable {
        run: RunId,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The claim of a run failed; the run may or may not be claimed.
#[derive(Debug, thiserror::Error)]
#[error("the claim could not be written")]
pub struct ClaimError(#[source] pub Box<dyn std::error::Error + Send + Sync>);
