//! Changes to a running agent that need no new configuration (S1 5).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::TurnId;

/// How much a model thinks before it answers (S1 5, `SetThinkingLevel`).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingLevel {
    #[default]
    Off,
    Minimal,
    Low,
    Medium,
    High,
    Max,
}

impl ThinkingLevel {
    /// In ascending order.
    pub const ALL: [Self; 6] = [Self::Off, Self::Minimal, Self::Low, Self::Medium, Self::High, Self::Max];

    /// Name of the level on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Max => "max",
        }
    }
}

/// Direction in which models are cycled (S1 5, `CycleModel`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CycleDirection {
    #[default]
    Forward,
    Backward,
}

/// The place in the conversations of a session where the agent continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ConversationTarget {
    /// The end of the branch on which this conversation was left.
    ConversationId(String),
    /// The state after this turn, of any conversation and branch.
    TurnId(TurnId),
}

/// A change to a running agent (S1 5, decision 32).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Adjustment {
    /// Use another model from the next model call on.
    SetModel { model_id: String },
    /// Use the next or previous of the available models.
    CycleModel { direction: CycleDirection },
    /// Use another thinking level.
    SetThinkingLevel { level: ThinkingLevel },
    /// Summarise the conversation now.
    Compact {
        /// What the summary should focus on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instructions: Option<String>,
    },
    /// Rewind the conversation to before a turn and continue on a new branch. The old branch is kept. Only between turns.
    Fork {
        /// The first turn that is not part of the new branch.
        before_turn_id: TurnId,
    },
    /// Begin an empty conversation whose parent is the current one, which is kept (S1 5, `NewSession`). Only between turns.
    NewConversation {},
    /// Continue another conversation or branch of the session (S1 5, `SwitchSession`). Only between turns.
    SwitchConversation {
        /// Where the agent continues.
        target: ConversationTarget,
    },
    /// Label the state of the conversation after a turn (S1 9). Only between turns.
    LabelTurn {
        /// The turn; the latest one of the current branch if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn_id: Option<TurnId>,
        /// `null` removes the label.
        label: Option<String>,
    },
    /// Set the total in US dollars that the run may spend over its life (decision 32), as a decimal string. An agent that waits
    /// before a model call checks again, and reports `budget_exceeded` again if the allowance is still too low.
    SetAllowance {
        /// `null` removes the limit.
        allowance_usd: Option<String>,
    },
}
