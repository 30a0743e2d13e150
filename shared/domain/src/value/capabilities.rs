//! What an adapter can do; the control plane degrades by it instead of guessing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Adjustment;

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
    /// Its model can be changed while it runs.
    pub model_switch: bool,
    /// How deeply it thinks can be changed while it runs.
    pub thinking_levels: bool,
    /// It summarises its conversation when it is asked to.
    pub compaction: bool,
    /// Its conversation can go back to before a turn.
    pub fork: bool,
    /// It does not begin a model call whose worst case passes what is left (ruling 32).
    pub budget_before_call: bool,
}

impl Capabilities {
    /// Whether it can carry out an adjustment.
    pub const fn can_adjust(&self, adjustment: &Adjustment) -> bool {
        match adjustment {
            Adjustment::SetModel { .. } | Adjustment::CycleModel { .. } => self.model_switch,
            Adjustment::SetThinkingLevel { .. } => self.thinking_levels,
            Adjustment::Compact { .. } => self.compaction,
            Adjustment::Fork { .. } => self.fork,
            Adjustment::SetAllowance { .. } => self.budget_before_call,
        }
    }
}
