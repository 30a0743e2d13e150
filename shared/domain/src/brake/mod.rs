//! The emergency brake (S2 "Emergency Brake", decision 72): stops sessions of an owner, and lets none of them start.
//!
//! A [`Brake`] is recorded twice. The pool has a [`PoolBrake`], which every allocation of a slot checks. The aggregate names the
//! sessions that had a slot then; a reaction puts a hold on each of them.

mod aggregate;
mod error;
mod event;
mod pool_brake;
mod progress;

pub use aggregate::{Brake, BrakeRelease, NewBrake, ReleasedBy};
pub use error::BrakeError;
pub use event::BrakeEvent;
pub use pool_brake::PoolBrake;
pub use progress::HoldStage;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::AgentSessionId;

/// Which sessions a brake stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum BrakeScope {
    /// All sessions of the owner.
    All {},
    /// One session, and the session that continues its work.
    Session { session_id: AgentSessionId },
}

/// How a brake stops a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum BrakeBehavior {
    /// Pauses the agent. If its adapter cannot pause, its process is ended.
    #[default]
    Pause,
    /// Ends the process. The session keeps its conversation and its requests.
    Kill,
}

crate::names::named!(BrakeBehavior {
    Pause => "pause",
    Kill => "kill",
});
