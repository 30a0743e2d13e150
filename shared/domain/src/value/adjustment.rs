//! What changes how an agent works without a new configuration (S1 5).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::TurnId;

/// How deeply a model thinks before it answers (S1 5, `SetThinkingLevel`).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the names say it
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
    /// Every level, from none to the most.
    pub const ALL: [Self; 6] = [Self::Off, Self::Minimal, Self::Low, Self::Medium, Self::High, Self::Max];

    /// Its name on the wire.
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

/// Which way models are cycled (S1 5, `CycleModel`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the names say it
pub enum CycleDirection {
    #[default]
    Forward,
    Backward,
}

/// A change to how an agent works (S1 5, ruling 32).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Adjustment {
    /// Another model, from its next call on.
    SetModel {
        /// The model.
        model_id: String,
    },
    /// The next or previous model of those that it knows.
    CycleModel {
        /// Which way.
        direction: CycleDirection,
    },
    /// How deeply it thinks.
    SetThinkingLevel {
        /// How deeply.
        level: ThinkingLevel,
    },
    /// Summarise the conversation now.
    Compact {
        /// What the summary is to look out for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instructions: Option<String>,
    },
    /// Go back to before a turn, on a branch of its own; what came after stays in the tree. Only between turns.
    Fork {
        /// The turn that is left out.
        before_turn_id: TurnId,
    },
    /// Another cap: the most dollars that this run may spend from its beginning on, as a decimal string (ruling 32). An agent
    /// that holds before a call looks again, and tells `budget_exceeded` once more if that is still not enough.
    SetAllowance {
        /// None: no cap.
        allowance_usd: Option<String>,
    },
}
