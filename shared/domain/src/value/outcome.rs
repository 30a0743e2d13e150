//! How a turn of an agent ended, and where its deliverables stand (S4).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a session of S4, which is a turn here, ended (S4 `SessionOutcome`, ruling 39). Failure and quota have events of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionOutcome {
    /// Normally.
    #[default]
    Completed,
    /// At the limit of its turns or iterations.
    MaxIterations,
    /// In an error.
    ExecutionError,
    /// At the limit of its costs.
    BudgetExceeded,
    /// The plan that pays for it is used up.
    QuotaExceeded,
}

impl SessionOutcome {
    /// Whether it ended normally.
    #[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
    pub const fn is_completed(&self) -> bool {
        matches!(self, Self::Completed)
    }
}

/// How many deliverables stand where (S4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliverableCounts {
    /// Not begun, or reset.
    pub pending: u32,
    /// All acceptance criteria are verified.
    pub passed: u32,
    /// Something outside prevents it.
    pub blocked: u32,
}

impl DeliverableCounts {
    /// The counts of `states`.
    pub fn of(states: impl IntoIterator<Item = DeliverableState>) -> Self {
        let mut counts = Self::default();
        for state in states {
            let count = match state {
                DeliverableState::Pending => &mut counts.pending,
                DeliverableState::Passed => &mut counts.passed,
                DeliverableState::Blocked => &mut counts.blocked,
            };
            *count = count.saturating_add(1);
        }
        counts
    }

    /// All of them.
    pub const fn total(self) -> u32 {
        self.pending.saturating_add(self.passed).saturating_add(self.blocked)
    }
}

impl std::fmt::Display for DeliverableCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { pending, passed, blocked } = self;
        write!(f, "{passed} passed, {blocked} blocked, {pending} pending")
    }
}

/// Where a deliverable stands (S4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliverableState {
    /// Not begun, or reset.
    #[default]
    Pending,
    /// All acceptance criteria are verified.
    Passed,
    /// Something outside prevents it.
    Blocked,
}
