//! Capabilities of an adapter. The control plane offers only what the adapter supports.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Adjustment;

/// Capabilities that a sidecar's adapter reports. Capabilities that it does not name are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[allow(clippy::struct_excessive_bools)] // a list of independent yes-or-no answers
pub struct Capabilities {
    /// Messages can reach the agent within a turn.
    pub steer_mid_turn: bool,
    /// The agent can be suspended and later continue the same turn.
    pub pause: bool,
    /// A later run can continue the agent's conversation.
    pub resume_conversation: bool,
    /// The configuration can change without a new process.
    pub hot_reload: bool,
    /// The agent reports what a turn costs.
    pub cost: bool,
    /// The agent reports how full the context window is.
    pub context_usage: bool,
    /// Tools can wait for an approval.
    pub approvals: bool,
    /// The agent asks questions.
    pub questions: bool,
    /// The agent has a plan mode.
    pub plans: bool,
    /// The agent starts subagents.
    pub subagents: bool,
    /// The model can be changed at run time.
    pub model_switch: bool,
    /// The thinking level can be changed at run time.
    pub thinking_levels: bool,
    /// The agent summarises its conversation on request.
    pub compaction: bool,
    /// The conversation can be rewound to before a turn.
    pub fork: bool,
    /// The agent can begin another conversation within the session, switch between conversations and label turns.
    pub conversations: bool,
    /// The agent does not start a model call whose highest cost exceeds the rest of the budget (decision 32).
    pub budget_before_call: bool,
    /// The agent stops spending at its allowance, and accepts a new allowance at run time.
    pub allowance: bool,
    /// The agent reports neither its cost nor tokens of a model with a known price (decision 32).
    pub unmetered: bool,
}

impl Capabilities {
    pub const fn can_adjust(&self, adjustment: &Adjustment) -> bool {
        match adjustment {
            Adjustment::SetModel { .. } | Adjustment::CycleModel { .. } => self.model_switch,
            Adjustment::SetThinkingLevel { .. } => self.thinking_levels,
            Adjustment::Compact { .. } => self.compaction,
            Adjustment::Fork { .. } => self.fork,
            Adjustment::NewConversation {}
            | Adjustment::SwitchConversation { .. }
            | Adjustment::LabelTurn { .. } => self.conversations,
            Adjustment::SetAllowance { .. } => self.allowance || self.budget_before_call,
        }
    }
}
