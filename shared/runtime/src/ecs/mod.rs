//! Sidecars as ECS tasks: one task for each run (S0 8.11; decisions 7, 12, 23).
//!
//! The run's id is the client token of its task, so that repeated launches start one task. `startedBy` contains the run and the
//! group contains the session (see [`group_of`]); both are in the events that ECS sends about the task. The task's environment
//! contains only the run's gateway token, with which the sidecar fetches everything else, including its keys. The token is visible
//! to anybody who may describe tasks of the cluster.
//!
//! The consumer of the events needs these names but not the SDK. Only the runtime itself therefore depends on the feature `ecs`.

#[cfg(feature = "ecs")]
mod request;
#[cfg(feature = "ecs")]
mod runtime;

use pilothouse_domain::AgentSessionId;

#[cfg(feature = "ecs")]
pub use runtime::{EcsError, EcsRuntime, EcsSettings};

/// Name of the sidecar's container in the task definition.
pub const CONTAINER: &str = "sidecar";

const GROUP: &str = "session:";

pub fn group_of(session: AgentSessionId) -> String {
    format!("{GROUP}{session}")
}

/// Parses the result of [`group_of`].
pub fn session_of(group: &str) -> Option<AgentSessionId> {
    group.strip_prefix(GROUP)?.parse().ok()
}
