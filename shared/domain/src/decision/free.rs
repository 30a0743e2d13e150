//! Decisions that no session guards (decision 81): those whose session ended, and those of the system. Each has a version of its own.
//!
//! Every change is an operation of the table in [`FreeOperation::next`]. The commit is conditioned on the version that was loaded, so of
//! two concurrent operations one is decided again on the outcome of the other.

use super::fit::misfit;
use super::{
    CancelReason, CoherenceOutcome, Decision, DecisionKind, DecisionState, DecisionSubject, FreeOperation,
    FreeStatus, Misfit, OrphanAction, OrphanStage, OrphanedDecisionPolicy, ProposedResolution, Recovery,
    Resolution, ResolutionDelivery, ResolutionType, ResolvedBy, Ruling,
};
use crate::brake::Brake;
use crate::coherence::{CoherenceIssue, IssueReview};
use crate::effect::Severity;
use crate::text::Feedback;
use crate::{Aggregate as _, CoherenceIssueId, DecisionId, ProjectAgentId, Timestamp};

/// A decision that guards itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreeDecision {
    decision: Decision,
    status: FreeStatus,
}

/// Why an operation was refused. The decision is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FreeDecisionError {
    #[error("cannot {operation} a decision that is {status}")]
    Refused { operation: FreeOperation, status: FreeStatus },
    #[error("the resolution does not fit the decision")]
    Unfit(Vec<Misfit>),
}

impl DecisionKind {
    /// Whether decisions of this kind belong to no session from the beginning.
    pub const fn is_free(self) -> bool {
        match self {
            Self::BrakeRelease
            | Self::CrashRecovery
            | Self::HandoffFailed
            | Self::Autonomy
            | Self::CoherenceReview => true,
            Self::Option | Self::ToolApproval | Self::Question | Self::Plan | Self::OutputReview => false,
        }
    }
}

impl Decision {
    /// Leaves the decision without its session, which ended for `reason`. It counts as more severe, so that it moves up in the inbox.
    pub(crate) fn orphan(&mut self, reason: CancelReason, now: Timestamp) {
        let (severity, _) = self.rank();
        self.severity = Some(severity.raised().unwrap_or(severity));
        self.expires_at = None;
        self.timeout = None;
        self.state = DecisionState::Orphaned { since: now, reason, stage: OrphanStage::New {} };
    }

    /// When the clock processes the decision. Decisions of a session have the deadline of the session instead.
    pub const fn due_at(&self) -> Option<Timestamp> {
        match (&self.state, &self.subject) {
            (DecisionState::Orphaned { since, stage: OrphanStage::New {}, .. }, _) => Some(*since),
            (DecisionState::Orphaned { stage: OrphanStage::Grace { ends_at, .. }, .. }, _) => Some(*ends_at),
            (DecisionState::Pending, DecisionSubject::CrashRecovery { automatic: Some(automatic), .. }) => {
                Some(automatic.at)
            }
            _ => None,
        }
    }
}

/// Opening.
impl FreeDecision {
    /// The decision that releases `brake`.
    pub fn brake_release(brake: &Brake) -> Self {
        let subject = DecisionSubject::BrakeRelease {
            brake_id: brake.id(),
            scope: brake.scope().clone(),
            brake_reason: brake.reason().as_str().to_owned(),
        };
        let (severity, blast_radius) = subject.classification().unzip();
        Self::pending(Decision {
            id: Brake::release_decision_of(brake.id()),
            owner_id: brake.owner_id().clone(),
            session: None,
            project: None,
            subject,
            severity,
            blast_radius,
            created_at: brake.pulled_at(),
            expires_at: None,
            timeout: None,
            state: DecisionState::Pending,
        })
    }

    /// The id of the decision about an issue that a model confirmed at `reviewed_at`.
    pub fn coherence_review_of(issue: CoherenceIssueId, reviewed_at: Timestamp) -> DecisionId {
        DecisionId::about(issue.uuid(), &format!("review/{reviewed_at}"))
    }

    /// The decision about an issue that a model confirmed with a high or critical severity; `None` for others.
    pub fn coherence_review(issue: &CoherenceIssue) -> Option<Self> {
        let finding = issue.finding();
        let Some(IssueReview::Confirmed { at, explanation, suggested_resolution, .. }) = issue.review()
        else {
            return None;
        };
        if finding.severity < Severity::High {
            return None;
        }
        let subject = DecisionSubject::CoherenceReview {
            issue_id: issue.id(),
            project_id: issue.project_id(),
            issue_title: finding.title.clone(),
            category: finding.category,
            explanation: explanation.clone(),
            suggested_resolution: suggested_resolution.clone(),
            affected_workstreams: finding.affected_workstreams.clone(),
            affected_artifact_ids: finding.affected_artifact_ids.clone(),
            options: CoherenceOutcome::options(),
        };
        Some(Self::pending(Decision {
            id: Self::coherence_review_of(issue.id(), *at),
            owner_id: issue.owner_id().clone(),
            session: None,
            project: None,
            subject,
            severity: Some(finding.severity),
            blast_radius: None,
            created_at: *at,
            expires_at: None,
            timeout: None,
            state: DecisionState::Pending,
        }))
    }

    /// A new decision.
    pub(crate) const fn pending(decision: Decision) -> Self {
        Self { decision, status: FreeStatus::Pending }
    }

    /// A stored decision.
    ///
    /// # Errors
    /// The decision, if a session guards it, or did until it was over.
    pub fn of(decision: Decision) -> Result<Self, Box<Decision>> {
        let is_free = decision.kind().is_free() || matches!(decision.state, DecisionState::Orphaned { .. });
        match FreeStatus::of(&decision.state).filter(|_| is_free) {
            Some(status) => Ok(Self { decision, status }),
            None => Err(Box::new(decision)),
        }
    }
}

/// Read access.
impl FreeDecision {
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }

    pub const fn status(&self) -> FreeStatus {
        self.status
    }

    /// The recovery that is due without a person.
    pub fn automatic_recovery(&self) -> Option<Recovery> {
        match &self.decision.subject {
            DecisionSubject::CrashRecovery { automatic, .. } if self.status == FreeStatus::Pending => {
                automatic.map(|automatic| automatic.recovery)
            }
            _ => None,
        }
    }

    /// What the policy does when the grace period is over.
    pub const fn action_after_grace(&self) -> Option<OrphanAction> {
        match &self.decision.state {
            DecisionState::Orphaned { stage: OrphanStage::Grace { then, .. }, .. } => Some(*then),
            _ => None,
        }
    }

    /// The agent that receives the resolution of an orphaned decision. The approval of a tool call concerns nobody: the call is over.
    pub fn recipient(&self) -> Option<ProjectAgentId> {
        if self.decision.kind() == DecisionKind::ToolApproval {
            return None;
        }
        match &self.decision.state {
            DecisionState::Orphaned { stage: OrphanStage::Reassigned { reassigned_to, .. }, .. } => {
                Some(*reassigned_to)
            }
            DecisionState::Orphaned { .. } => self.decision.project.as_ref().map(|of| of.agent_id),
            _ => None,
        }
    }

    /// The resolution that a person proposes.
    ///
    /// # Errors
    /// [`FreeDecisionError::Refused`] if the decision is over, or every part of the resolution that does not fit.
    pub fn resolution(&self, proposed: &ProposedResolution) -> Result<Resolution, FreeDecisionError> {
        self.check(FreeOperation::Resolve)?;
        let subject = &self.decision.subject;
        let mut misfits = subject.misfits(proposed, &self.decision.resolutions());
        if proposed.always_approve && misfits.is_empty() {
            misfits.push(misfit("alwaysApprove", "has no effect, because the session ended"));
        }
        let rationale = proposed.rationale.as_ref().map(Feedback::as_str).map(str::to_owned);
        let resolution = match proposed.resolution_type {
            ResolutionType::Answer => proposed.answers.as_deref().map(|it| subject.resolution_of(it)),
            ResolutionType::ChooseOption => proposed
                .chosen_option_id
                .clone()
                .map(|chosen_option_id| Resolution::ChooseOption { chosen_option_id, rationale }),
            ResolutionType::Approve => Some(Resolution::Approve { always_approve: false, rationale }),
            ResolutionType::Modify => None,
            ResolutionType::Reject => Some(Resolution::Reject { rationale }),
            ResolutionType::Dismiss => Some(Resolution::Dismiss),
        };
        match resolution {
            Some(resolution) if misfits.is_empty() => Ok(resolution),
            _ => Err(FreeDecisionError::Unfit(misfits)),
        }
    }

    fn check(&self, operation: FreeOperation) -> Result<FreeStatus, FreeDecisionError> {
        let refused = FreeDecisionError::Refused { operation, status: self.status };
        operation.next(self.status).ok_or(refused)
    }
}

/// Operations. One that is refused changes nothing.
impl FreeDecision {
    /// Starts the grace period of an orphaned decision.
    pub fn begin_grace(&mut self, policy: &OrphanedDecisionPolicy) -> Result<(), FreeDecisionError> {
        let status = self.check(FreeOperation::BeginGrace)?;
        let then = policy.action(self.decision.kind());
        if let DecisionState::Orphaned { since, stage, .. } = &mut self.decision.state {
            *stage = OrphanStage::Grace { ends_at: *since + policy.grace(), then };
        }
        self.status = status;
        Ok(())
    }

    /// Applies the policy after the grace period. `replacement` is the agent that can take the decision over.
    pub fn end_grace(
        &mut self,
        replacement: Option<ProjectAgentId>,
        now: Timestamp,
    ) -> Result<(), FreeDecisionError> {
        let is_call = self.decision.kind() == DecisionKind::ToolApproval;
        match (self.action_after_grace(), replacement) {
            (Some(OrphanAction::Cancel), _) if is_call => {
                self.resolve(Resolution::Reject { rationale: None }, ResolvedBy::OrphanPolicy, None, now)
            }
            (Some(OrphanAction::Cancel), _) => {
                self.enter(FreeOperation::Expire, DecisionState::Expired { ended_at: now })
            }
            (Some(OrphanAction::Reassign), Some(reassigned_to)) if !is_call => {
                self.move_on(FreeOperation::Reassign, OrphanStage::Reassigned { reassigned_to })
            }
            _ => self.move_on(FreeOperation::Triage, OrphanStage::Triage {}),
        }
    }

    /// Resolves the decision. `delivery` says how the resolution reaches an agent.
    pub fn resolve(
        &mut self,
        resolution: Resolution,
        resolved_by: ResolvedBy,
        delivery: Option<ResolutionDelivery>,
        now: Timestamp,
    ) -> Result<(), FreeDecisionError> {
        let is_automatic = !matches!(resolved_by, ResolvedBy::Owner { .. });
        let ruling = Ruling { resolution, resolved_by, resolved_at: now };
        if is_automatic {
            self.enter(FreeOperation::AutoResolve, DecisionState::AutoResolved { ruling, delivery })
        } else {
            self.enter(FreeOperation::Resolve, DecisionState::Resolved { ruling, delivery })
        }
    }

    /// Ends a decision of the system, because what it is about ended in another way.
    pub fn cancel(&mut self, reason: CancelReason, now: Timestamp) -> Result<(), FreeDecisionError> {
        self.enter(FreeOperation::Cancel, DecisionState::Cancelled { ended_at: now, reason })
    }

    /// Leaves a recovery to a person that cannot happen without one. Returns whether it would have happened.
    pub const fn leave_to_person(&mut self) -> bool {
        match &mut self.decision.subject {
            DecisionSubject::CrashRecovery { automatic, .. } => automatic.take().is_some(),
            _ => false,
        }
    }

    fn move_on(&mut self, operation: FreeOperation, to: OrphanStage) -> Result<(), FreeDecisionError> {
        let status = self.check(operation)?;
        if let DecisionState::Orphaned { stage, .. } = &mut self.decision.state {
            *stage = to;
        }
        self.status = status;
        Ok(())
    }

    fn enter(&mut self, operation: FreeOperation, state: DecisionState) -> Result<(), FreeDecisionError> {
        self.status = self.check(operation)?;
        self.decision.state = state;
        Ok(())
    }
}
