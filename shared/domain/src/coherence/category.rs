//! The kinds of problems between the work of different agents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::named;

/// S2 `CoherenceCategory`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CoherenceCategory {
    Contradiction,
    Duplication,
    Gap,
    DependencyViolation,
}

named!(CoherenceCategory {
    Contradiction => "contradiction",
    Duplication => "duplication",
    Gap => "gap",
    DependencyViolation => "dependency_violation",
});

impl CoherenceCategory {
    pub const ALL: [Self; 4] = [Self::Contradiction, Self::Duplication, Self::Gap, Self::DependencyViolation];
}
