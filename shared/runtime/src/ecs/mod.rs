//! Sidecars as ECS tasks: one task a run, which ends with it (S0 8.11; rulings 7, 12, 23).
//!
//! A task is started under the run's id as its client token, so that a launch that is given twice starts one task. It
//! is found again by `startedBy`, the run, and names its session by its group, [`group_of`]: both stand in the events that
//! ECS sends of it. The task's environment holds no more than the run's gateway token; the rest, keys and all, the
//! sidecar fetches with it. Whoever may describe the tasks of the cluster sees that token.
//!
//! What reads the events needs these names and nothing of the SDK, so the runtime alone is behind the feature `ecs`.

#[cfg(feature = "ecs")]
mod request;
#[cfg(feature = "ecs")]
mod runtime;

use pilothouse_domain::AgentSessionId;

#[cfg(feature = "ecs")]
pub use runtime::{EcsError, EcsRuntime, EcsSettings};

/// The container of the task definition that is the sidecar.
pub const CONTAINER: &str = "sidecar";

/// What the group of a task begins with.
const GROUP: &str = "session:";

/// The group of the tasks of a session.
pub fn group_of(session: AgentSessionId) -> String {
    format!("{GROUP}{session}")
}

/// The session of a group that [`group_of`] named.
pub fn session_of(group: &str) -> Option<AgentSessionId> {
    group.strip_prefix(GROUP)?.parse().ok()
}
