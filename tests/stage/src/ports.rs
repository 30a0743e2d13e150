//! Ports with nothing behind them.

use async_trait::async_trait;
use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_functions::stream::{Wake, Wakes};
use pilothouse_runtime::{AgentRuntime, LaunchError, ProcessState, RuntimeCapabilities, StopError, StopMode};
use pilothouse_wire::launch::LaunchRequest;

/// Runs nothing, and takes every order.
#[derive(Debug, Clone)]
pub struct NoRuntime {
    /// What it says that sessions can expect.
    pub capabilities: RuntimeCapabilities,
    /// What it says of every process.
    pub state: ProcessState,
}

impl NoRuntime {
    /// It forgets everything between two runs, and knows of no process.
    pub fn nowhere() -> Self {
        Self::of(false, "nowhere")
    }

    /// It keeps the workspaces of sessions, which can hibernate then, and knows of no process.
    pub fn durable(placement: &str) -> Self {
        Self::of(true, placement)
    }

    fn of(durable_workspace: bool, placement: &str) -> Self {
        let capabilities = RuntimeCapabilities { durable_workspace, placement: placement.to_owned() };
        Self { capabilities, state: ProcessState::Unknown }
    }
}

#[async_trait]
impl AgentRuntime for NoRuntime {
    async fn launch(&self, _: LaunchRequest) -> Result<(), LaunchError> {
        Ok(())
    }
    async fn stop(&self, _: AgentSessionId, _: RunId, _: StopMode) -> Result<(), StopError> {
        Ok(())
    }
    async fn state(&self, _: RunId) -> ProcessState {
        self.state
    }
    fn capabilities(&self) -> RuntimeCapabilities {
        self.capabilities.clone()
    }
}

/// No stream tails a journal, as in `aws`.
#[derive(Debug, Clone, Copy)]
pub struct NoWakes;

#[async_trait]
impl Wake for NoWakes {
    async fn grown(&mut self) -> bool {
        false
    }
}

impl Wakes for NoWakes {
    fn watch(&self, _: AgentSessionId) -> Box<dyn Wake> {
        Box::new(Self)
    }
}
