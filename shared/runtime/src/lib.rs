//! The [`AgentRuntime`] port (S0 8.11 `IAgentRuntime`): how the control plane starts and stops sidecars.
//!
//! - [`port`]: the port and its errors
//! - [`run_events`]: reports the end of runs
//! - [`ecs`]: sidecars as ECS tasks
//! - [`vendor`]: short-lived credentials for sidecars and workers
//!
//! The crate `pilothouse-worker` implements the port with processes and containers of one machine.

pub mod ecs;
pub mod port;
pub mod run_events;
pub mod vendor;

#[cfg(feature = "ecs")]
pub use ecs::{EcsRuntime, EcsSettings};
pub use port::{
    AgentRuntime, AtCapacity, ClaimError, LaunchError, ProcessState, RuntimeCapabilities, StopError, StopMode,
};
pub use run_events::{ReportError, RunEvents};
pub use vendor::{CredentialVendor, VendError};
