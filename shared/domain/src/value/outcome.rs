//! Outcome of a turn, and states of deliverables (S4).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a turn ended (S4 `SessionOutcome`, decision 39; a session of S4 is a turn here).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionOutcome {
    /// The turn ended normally.
    #[default]
    Completed,
    /// The agent reached its limit of turns or iterations.
    MaxIterations,
    /// The agent ended with an error.
    ExecutionError,
    /// The agent reached its cost limit.
    BudgetExceeded,
    /// The agent's subscription quota is used up.
    QuotaExceeded,
}

impl SessionOutcome {
    #[allow(clippy::trivially_copy_pass_by_ref)] // serde requires this signature
    pub const fn is_completed(&self) -> bool {
        matches!(self, Self::Completed)
    }
}

/// Number of deliverables by state (S4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliverableCounts {
    /// Not started, or reset.
    pub pending: u32,
    /// All acceptance criteria are verified.
    pub passed: u32,
    /// Blocked by an external cause.
    pub blocked: u32,
}

impl DeliverableCounts {
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

/// State of a deliverable (S4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliverableState {
    /// Not started, or reset.
    #[default]
    Pending,
    /// All acceptance criteria are verified.
    Passed,
    /// Blocked by an external cause.
    Blocked,
}
