//! What becomes of decisions whose session ended (S2 `OrphanedDecisionPolicy`; decision 81).

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::DecisionKind;
use crate::control_mode::ControlMode;
use crate::names::named;
use crate::{ProjectAgentId, Timestamp};

/// What happens to an orphaned decision when its grace period is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OrphanAction {
    /// It waits for a person.
    Triage,
    /// A tool call is rejected, and any other decision expires.
    Cancel,
    /// Another working agent with the same role and workstream takes it over. Without one it waits for a person.
    Reassign,
}

named!(OrphanAction {
    Triage => "triage",
    Cancel => "cancel",
    Reassign => "reassign",
});

/// Actions by kind of decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OrphanActions {
    /// Of options, questions and plans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option: Option<OrphanAction>,
    /// Of tool calls. They cannot be reassigned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_approval: Option<OrphanAction>,
}

/// What happens to the open decisions of an agent whose session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OrphanedDecisionPolicy {
    /// What happens after the grace period.
    pub default: OrphanAction,
    /// How long a person can decide before that, in milliseconds: at most 24 hours.
    #[serde(default = "OrphanedDecisionPolicy::default_grace")]
    pub grace_period_ms: u64,
    /// What differs by the kind of decision.
    #[serde(default)]
    pub per_subtype: OrphanActions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOrphanPolicy {
    #[error("gracePeriodMs must be at most {}", OrphanedDecisionPolicy::MAX_GRACE_MS)]
    Grace,
    #[error("perSubtype.tool_approval must be triage or cancel, because another agent did not make the call")]
    ReassignedCall,
}

/// How far the policy has been applied to an orphaned decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "stage", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum OrphanStage {
    /// The policy of the project was not read yet.
    New {},
    /// A person can decide before the policy applies.
    Grace { ends_at: Timestamp, then: OrphanAction },
    /// It waits for a person.
    Triage {},
    /// Another agent took it over, which receives the resolution.
    Reassigned { reassigned_to: ProjectAgentId },
}

impl OrphanedDecisionPolicy {
    pub const DEFAULT_GRACE_MS: u64 = 30_000;
    pub const MAX_GRACE_MS: u64 = 24 * 60 * 60 * 1000;

    const fn default_grace() -> u64 {
        Self::DEFAULT_GRACE_MS
    }

    /// **The policy of each mode** of S2.
    pub const fn of_mode(mode: ControlMode) -> Self {
        let (default, option, tool_approval) = match mode {
            ControlMode::Orchestrator => (OrphanAction::Triage, None, None),
            ControlMode::Adaptive => (OrphanAction::Triage, None, Some(OrphanAction::Cancel)),
            ControlMode::Ecosystem => (OrphanAction::Cancel, Some(OrphanAction::Triage), None),
        };
        let per_subtype = OrphanActions { option, tool_approval };
        Self { default, grace_period_ms: Self::DEFAULT_GRACE_MS, per_subtype }
    }

    /// Names every violation.
    pub fn check(&self) -> Result<(), Vec<InvalidOrphanPolicy>> {
        let mut found = Vec::new();
        if self.grace_period_ms > Self::MAX_GRACE_MS {
            found.push(InvalidOrphanPolicy::Grace);
        }
        if self.per_subtype.tool_approval == Some(OrphanAction::Reassign) {
            found.push(InvalidOrphanPolicy::ReassignedCall);
        }
        if found.is_empty() { Ok(()) } else { Err(found) }
    }

    pub const fn grace(&self) -> Duration {
        Duration::from_millis(self.grace_period_ms)
    }

    /// The action for a kind of decision. A tool call that would be reassigned waits for a person.
    pub fn action(&self, kind: DecisionKind) -> OrphanAction {
        if kind != DecisionKind::ToolApproval {
            return self.per_subtype.option.unwrap_or(self.default);
        }
        match self.per_subtype.tool_approval.unwrap_or(self.default) {
            OrphanAction::Reassign => OrphanAction::Triage,
            action => action,
        }
    }
}
