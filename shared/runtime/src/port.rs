//! What the control plane asks of whatever runs its sidecars.

use async_trait::async_trait;
use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_wire::launch::LaunchRequest;

use crate::claims::ClaimError;

/// Runs sidecars (S0 8.11 `IAgentRuntime`; rulings 7, 12 to 14).
///
/// That a run is over is told by a `run_exited` event, never by an answer of this port.
#[async_trait]
pub trait AgentRuntime: Send + Sync {
    /// Accepts a request to run a sidecar. The process may start later, or not at all if the run is over or
    /// another worker holds it. A second launch of the same run starts nothing and succeeds.
    ///
    /// An error means that nothing was started and that the request is to be given again.
    async fn launch(&self, request: LaunchRequest) -> Result<(), LaunchError>;

    /// Sends a signal to the processes of a run and returns at once. Stopping a run that is over, or that this
    /// runtime does not know, succeeds.
    async fn stop(&self, session: AgentSessionId, run: RunId, mode: StopMode) -> Result<(), StopError>;

    /// Whether the process of a run lives (ruling 12: the runtime is asked when a command is not received).
    async fn state(&self, run: RunId) -> ProcessState;

    /// What sessions can expect from this runtime.
    fn capabilities(&self) -> RuntimeCapabilities;
}

/// How firmly to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMode {
    /// Ask: the sidecar ends its agent, publishes what it has, and exits (`SIGTERM`).
    Terminate,
    /// End the sidecar and everything that it started, now (`SIGKILL`).
    Kill,
}

/// What a runtime knows of a run's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessState {
    /// It runs, or is about to.
    Alive,
    /// There is no place for it, for now; it is launched when there is one (ruling 23).
    Waiting,
    /// It ran, or was to run, and is gone.
    Dead,
    /// This runtime knows nothing of the run.
    Unknown,
}

/// What sessions can expect from a runtime (ruling 23).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeCapabilities {
    /// Whether the working directory, the session home and the spool outlive a run. Without it there is no
    /// hibernation.
    pub durable_workspace: bool,
    /// Where the runs of this runtime happen. Stored with a session, which is woken and continued only there.
    pub placement: String,
}

/// Why a launch was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The runtime is stopping.
    #[error("the runtime is stopping and starts nothing")]
    Stopping,
    /// It is not known whether the run was claimed.
    #[error("the run could not be claimed")]
    Claim(#[source] ClaimError),
    /// The folders of the run could not be made ready.
    #[error("the run could not be prepared")]
    Prepare(#[source] std::io::Error),
    /// What runs sidecars could not be reached, or could not be chosen just now.
    #[error("the launch could not be handed on")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Why a run could not be stopped.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// The process lives and is not verified yet: it has not said its process id, or that cannot be read. Nothing
    /// was signalled; try again.
    #[error("the process of run {run} cannot be verified yet")]
    Unverified {
        /// The run.
        run: RunId,
    },
    /// The operating system refused the signal.
    #[error("the processes of run {run} could not be signalled")]
    Signal {
        /// The run.
        run: RunId,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// What runs it could not be reached just now.
    #[error("run {run} could not be told to end")]
    Unreachable {
        /// The run.
        run: RunId,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
