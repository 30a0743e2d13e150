//! Maps resolutions and the ends of sessions to outcomes for trust (S2, "Trust score update rules"; decision 76).

use super::{Decision, DecisionSubject, Resolution, ResolvedBy};
use crate::effect::Effect;
use crate::trust::{JudgedAction, ReportedOutcome, TrustOutcome};
use crate::value::{FailureReason, SessionOutcome};

impl TrustOutcome {
    /// What the resolution of a decision of the agent means. `None`: nothing for trust.
    pub fn of_resolution(subject: &DecisionSubject, resolution: &Resolution) -> Option<Self> {
        use DecisionSubject as S;
        use Resolution as R;
        match (subject, resolution) {
            (S::ToolApproval { .. }, R::Approve { always_approve: false, .. }) => {
                Some(Self::HumanApprovesToolCall)
            }
            (S::ToolApproval { .. }, R::Approve { always_approve: true, .. }) => {
                Some(Self::HumanApprovesAlways)
            }
            (S::ToolApproval { .. }, R::Modify { .. }) => Some(Self::HumanModifiesToolArgs),
            (S::ToolApproval { .. }, R::Reject { .. }) => Some(Self::HumanRejectsToolCall),
            (S::OutputReview { .. }, R::Approve { .. }) => Some(Self::ArtifactApproved),
            (S::OutputReview { .. }, R::Reject { .. }) => Some(Self::ArtifactRejected),
            (S::Option { assessment: Some(assessment), .. }, R::ChooseOption { chosen_option_id, .. }) => {
                let recommended = assessment.recommended_option_id.as_ref()?;
                Some(if recommended == chosen_option_id {
                    Self::HumanApprovesRecommendedOption
                } else {
                    Self::HumanPicksNonRecommended
                })
            }
            // An answer in words neither approves nor rejects. S2's table has no outcome for questions, plans, and options without a
            // recommendation.
            (
                S::ToolApproval { .. } | S::OutputReview { .. },
                R::Answer { .. } | R::ChooseOption { .. } | R::Dismiss,
            )
            | (S::OutputReview { .. }, R::Modify { .. })
            | (
                S::Option { .. }
                | S::Question { .. }
                | S::Plan { .. }
                | S::BrakeRelease { .. }
                | S::CrashRecovery { .. }
                | S::HandoffFailed { .. }
                | S::Autonomy { .. }
                | S::CoherenceReview { .. },
                _,
            ) => None,
        }
    }

    /// What the end of an objective means, by the outcome of the last turn.
    pub const fn of_completion(last_turn: SessionOutcome) -> Self {
        match last_turn {
            SessionOutcome::Completed => Self::TaskCompletedSuccess,
            SessionOutcome::MaxIterations => Self::TaskAbandonedOrMaxTurns,
            SessionOutcome::ExecutionError
            | SessionOutcome::BudgetExceeded
            | SessionOutcome::QuotaExceeded => Self::TaskCompletedPartial,
        }
    }

    /// What a failed session means. `None` if the agent did not cause the failure, or if the review of its output counts already.
    pub const fn of_failure(reason: FailureReason) -> Option<Self> {
        match reason {
            FailureReason::AgentError => Some(Self::TaskAbandonedOrMaxTurns),
            FailureReason::BudgetExhausted
            | FailureReason::VerificationFailed
            | FailureReason::ManualCancellation
            | FailureReason::Timeout
            | FailureReason::InfrastructureError => None,
        }
    }
}

impl ReportedOutcome {
    /// An outcome without a decision.
    pub const fn new(outcome: TrustOutcome) -> Self {
        Self { outcome, decision_id: None, action: None }
    }

    /// The outcome of a decision that was resolved; `None` if it has none.
    pub fn of_decision(decision: &Decision) -> Option<Self> {
        let ruling = decision.state.ruling()?;
        let outcome = match ruling.resolved_by {
            ResolvedBy::DefaultAnswer | ResolvedBy::Timeout { .. } => TrustOutcome::DecisionAutoResolved,
            ResolvedBy::OrphanPolicy | ResolvedBy::RecoveryPolicy => return None,
            ResolvedBy::Owner { .. } => TrustOutcome::of_resolution(&decision.subject, &ruling.resolution)?,
        };
        Some(Self { outcome, decision_id: Some(decision.id), action: JudgedAction::of_decision(decision) })
    }
}

impl JudgedAction {
    /// The action that a decision permits or denies, by its classification.
    fn of_decision(decision: &Decision) -> Option<Self> {
        match &decision.subject {
            DecisionSubject::ToolApproval { approval, .. } => {
                let effect = approval.verdict.as_ref().map_or(Effect::UNCLASSIFIED, |verdict| verdict.effect);
                Some(Self::new(effect.action_kind, effect.severity))
            }
            DecisionSubject::Option { .. }
            | DecisionSubject::Question { .. }
            | DecisionSubject::Plan { .. }
            | DecisionSubject::OutputReview { .. }
            | DecisionSubject::BrakeRelease { .. }
            | DecisionSubject::CrashRecovery { .. }
            | DecisionSubject::HandoffFailed { .. }
            | DecisionSubject::Autonomy { .. }
            | DecisionSubject::CoherenceReview { .. } => None,
        }
    }
}
