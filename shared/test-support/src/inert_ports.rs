//! Ports without effect.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use pilothouse_app::change_notifier::{ChangeNotifier, ChangeSubscription};
use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_runtime::{
    AgentRuntime, AtCapacity, LaunchError, ProcessState, RuntimeCapabilities, StopError, StopMode,
};
use pilothouse_wire::launch::LaunchRequest;

/// A runtime that accepts all requests and runs nothing.
#[derive(Debug, Clone)]
pub struct InertRuntime {
    pub capabilities: RuntimeCapabilities,
    pub state: ProcessState,
    /// Whether there is room for another sidecar.
    pub has_room: bool,
    /// How often room for a sidecar was reserved.
    pub reserved: Arc<AtomicUsize>,
}

impl InertRuntime {
    /// A runtime without durable workspaces that knows no run.
    pub fn without_workspace() -> Self {
        Self::of(false, "without_workspace")
    }

    /// A runtime with durable workspaces, so that sessions can hibernate, that knows no run.
    pub fn with_workspace(placement: &str) -> Self {
        Self::of(true, placement)
    }

    fn of(durable_workspace: bool, placement: &str) -> Self {
        let capabilities =
            RuntimeCapabilities { durable_workspace, lease: None, placement: placement.to_owned() };
        Self { capabilities, state: ProcessState::Unknown, has_room: true, reserved: Arc::default() }
    }
}

#[async_trait]
impl AgentRuntime for InertRuntime {
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
    fn admit_start(&self) -> Result<(), AtCapacity> {
        let full = AtCapacity { message: "there is no room", retry_after: Duration::from_secs(1) };
        if !self.has_room {
            return Err(full);
        }
        self.reserved.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Never notifies, as in `aws`, where no stream waits for the journal.
#[derive(Debug, Clone, Copy)]
pub struct InertNotifier;

#[async_trait]
impl ChangeSubscription for InertNotifier {
    async fn changed(&mut self) -> bool {
        false
    }
}

impl ChangeNotifier for InertNotifier {
    fn subscribe(&self, _: AgentSessionId) -> Box<dyn ChangeSubscription> {
        Box::new(Self)
    }
}
