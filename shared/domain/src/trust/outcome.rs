//! Outcomes that change trust (S2, "Trust score update rules").

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Points;
use crate::effect::{ActionKind, Severity};
use crate::names::named;

/// What happened to a decision, an artifact or a task of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrustOutcome {
    HumanApprovesRecommendedOption,
    HumanApprovesToolCall,
    /// A person approved a tool call and all further calls like it.
    HumanApprovesAlways,
    HumanPicksNonRecommended,
    HumanModifiesToolArgs,
    HumanRejectsToolCall,
    /// A person stopped the agent with a brake. A brake of the system has no outcome.
    HumanOverridesViaBrake,
    ArtifactApproved,
    ArtifactRejected,
    CoherenceIssueConfirmed,
    /// A person reported an issue that the agent had not flagged.
    CoherenceIssueMissed,
    DecisionAutoResolved,
    TaskCompletedSuccess,
    TaskCompletedPartial,
    TaskAbandonedOrMaxTurns,
}

named!(TrustOutcome {
    HumanApprovesRecommendedOption => "human_approves_recommended_option",
    HumanApprovesToolCall => "human_approves_tool_call",
    HumanApprovesAlways => "human_approves_always",
    HumanPicksNonRecommended => "human_picks_non_recommended",
    HumanModifiesToolArgs => "human_modifies_tool_args",
    HumanRejectsToolCall => "human_rejects_tool_call",
    HumanOverridesViaBrake => "human_overrides_via_brake",
    ArtifactApproved => "artifact_approved",
    ArtifactRejected => "artifact_rejected",
    CoherenceIssueConfirmed => "coherence_issue_confirmed",
    CoherenceIssueMissed => "coherence_issue_missed",
    DecisionAutoResolved => "decision_auto_resolved",
    TaskCompletedSuccess => "task_completed_success",
    TaskCompletedPartial => "task_completed_partial",
    TaskAbandonedOrMaxTurns => "task_abandoned_or_max_turns",
});

impl TrustOutcome {
    /// In the order of S2's table.
    pub const ALL: [Self; 15] = [
        Self::HumanApprovesRecommendedOption,
        Self::HumanApprovesToolCall,
        Self::HumanApprovesAlways,
        Self::HumanPicksNonRecommended,
        Self::HumanModifiesToolArgs,
        Self::HumanRejectsToolCall,
        Self::HumanOverridesViaBrake,
        Self::ArtifactApproved,
        Self::ArtifactRejected,
        Self::CoherenceIssueConfirmed,
        Self::CoherenceIssueMissed,
        Self::DecisionAutoResolved,
        Self::TaskCompletedSuccess,
        Self::TaskCompletedPartial,
        Self::TaskAbandonedOrMaxTurns,
    ];

    /// **The delta table** of S2. A configuration can override each value.
    pub const fn base_delta(self) -> Points {
        Points::whole(match self {
            Self::HumanApprovesAlways => 3,
            Self::HumanApprovesRecommendedOption => 2,
            Self::HumanApprovesToolCall
            | Self::ArtifactApproved
            | Self::CoherenceIssueConfirmed
            | Self::TaskCompletedSuccess => 1,
            Self::DecisionAutoResolved | Self::TaskCompletedPartial => 0,
            Self::HumanPicksNonRecommended | Self::HumanModifiesToolArgs | Self::TaskAbandonedOrMaxTurns => {
                -1
            }
            Self::HumanRejectsToolCall | Self::ArtifactRejected | Self::CoherenceIssueMissed => -2,
            Self::HumanOverridesViaBrake => -3,
        })
    }

    /// Whether a person approved what the agent did or wanted to do. `None` for outcomes without a verdict of a person on an action.
    pub const fn approved(self) -> Option<bool> {
        match self {
            Self::HumanApprovesRecommendedOption
            | Self::HumanApprovesToolCall
            | Self::HumanApprovesAlways
            | Self::ArtifactApproved => Some(true),
            Self::HumanPicksNonRecommended
            | Self::HumanModifiesToolArgs
            | Self::HumanRejectsToolCall
            | Self::HumanOverridesViaBrake
            | Self::ArtifactRejected => Some(false),
            Self::CoherenceIssueConfirmed
            | Self::CoherenceIssueMissed
            | Self::DecisionAutoResolved
            | Self::TaskCompletedSuccess
            | Self::TaskCompletedPartial
            | Self::TaskAbandonedOrMaxTurns => None,
        }
    }
}

/// The action that a person's verdict concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JudgedAction {
    pub action_kind: ActionKind,
    /// Severity by the classification of the control plane. Gains are weighted by it alone, so that an agent cannot earn more by
    /// reporting a higher risk.
    pub severity: Severity,
    /// Severity that the agent reported. Losses are weighted by the higher of the two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_severity: Option<Severity>,
}

impl JudgedAction {
    /// An action whose risk the agent did not report.
    pub const fn new(action_kind: ActionKind, severity: Severity) -> Self {
        Self { action_kind, severity, reported_severity: None }
    }

    pub(super) fn weighing_severity(self, gain: bool) -> Severity {
        if gain { self.severity } else { self.severity.max(self.reported_severity.unwrap_or(self.severity)) }
    }
}
