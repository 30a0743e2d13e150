//! What an adapter can do; the control plane degrades by it instead of guessing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The capability report of a sidecar's adapter. What is not named, it cannot do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[allow(clippy::struct_excessive_bools)] // a list of independent yes or no answers
pub struct Capabilities {
    /// A message can reach the agent within a turn.
    pub steer_mid_turn: bool,
    /// The agent can be suspended and goes on where it was.
    pub pause: bool,
    /// The agent's conversation can be taken up by a later run.
    pub resume_conversation: bool,
    /// The configuration can change without a new process.
    pub hot_reload: bool,
    /// It reports what a turn costs.
    pub cost: bool,
    /// It reports how full the context window is.
    pub context_usage: bool,
    /// Tools can wait for an approval.
    pub approvals: bool,
    /// It asks questions.
    pub questions: bool,
    /// It has a plan mode.
    pub plans: bool,
    /// It starts subagents.
    pub subagents: bool,
}
