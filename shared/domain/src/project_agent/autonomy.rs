//! Proposals of autonomy, which a person answers (decision 68).

use super::{ProjectAgent, ProjectAgentEvent};
use crate::decision::{Decision, DecisionState, DecisionSubject, FreeDecision};
use crate::effect::ActionKind;
use crate::trust::{AutonomyChange, NoProposal, Rate};
use crate::{DecisionId, DomainContext, Timestamp};

/// The decisions of the owner that changes of autonomy open and end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProposalDecisions {
    pub opened: Vec<FreeDecision>,
    pub withdrawn: Vec<DecisionId>,
}

impl ProjectAgent {
    /// Opens a decision for each proposal in `events` of this agent, and withdraws the decisions about proposals that `events` revoke.
    pub fn decide_proposals(
        &mut self,
        events: &[ProjectAgentEvent],
        ctx: &DomainContext<'_>,
    ) -> ProposalDecisions {
        let mut decisions = ProposalDecisions::default();
        for change in events.iter().flat_map(ProjectAgentEvent::autonomy_changes) {
            match change {
                AutonomyChange::Proposed { action_kind, lower_bound } => {
                    let decision = FreeDecision::autonomy(self, *action_kind, *lower_bound, ctx.now);
                    self.proposals.insert(*action_kind, decision.decision().id);
                    decisions.opened.push(decision);
                }
                AutonomyChange::Revoked { action_kind, .. } => {
                    decisions.withdrawn.extend(self.proposals.remove(action_kind));
                }
            }
        }
        decisions
    }

    /// The decisions about unanswered proposals.
    pub fn open_proposals(&self) -> impl Iterator<Item = DecisionId> {
        self.proposals.values().copied()
    }

    /// A person grants or declines the proposed autonomy.
    ///
    /// # Errors
    /// [`NoProposal`] if none is open for this kind.
    pub fn answer_proposal(
        &mut self,
        action_kind: ActionKind,
        granted: bool,
        ctx: &DomainContext<'_>,
    ) -> Result<Vec<ProjectAgentEvent>, NoProposal> {
        let decision_id = *self.proposals.get(&action_kind).ok_or(NoProposal { action_kind })?;
        if granted {
            self.trust.grant_autonomy(action_kind, ctx.now)?;
        } else {
            self.trust.decline_autonomy(action_kind)?;
        }
        self.proposals.remove(&action_kind);
        self.updated_at = ctx.now;
        Ok(vec![ProjectAgentEvent::AutonomyAnswered { decision_id, action_kind, granted }])
    }
}

impl FreeDecision {
    /// The decision about the autonomy that `agent` proposes now.
    fn autonomy(agent: &ProjectAgent, action_kind: ActionKind, lower_bound: Rate, now: Timestamp) -> Self {
        let verdicts = agent.trust().approvals(action_kind);
        let what = format!("autonomy/{action_kind}/{}/{now}", verdicts.decided);
        let subject = DecisionSubject::Autonomy { action_kind, verdicts, lower_bound };
        let (severity, blast_radius) = subject.classification().unzip();
        Self::pending(Decision {
            id: DecisionId::about(agent.id().uuid(), &what),
            owner_id: agent.owner_id().clone(),
            session: None,
            project: Some(agent.membership()),
            subject,
            severity,
            blast_radius,
            created_at: now,
            expires_at: None,
            timeout: None,
            state: DecisionState::Pending,
        })
    }
}

impl ProjectAgentEvent {
    /// The changes of autonomy without a person.
    pub fn autonomy_changes(&self) -> &[AutonomyChange] {
        match self {
            Self::TrustChanged { entry, .. } => &entry.autonomy,
            Self::TrustConfigured { autonomy, .. } => autonomy,
            Self::Spawned { .. }
            | Self::SessionChanged { .. }
            | Self::ToolApproved { .. }
            | Self::Crashed { .. }
            | Self::BriefUpdated { .. }
            | Self::ProjectBriefChanged {}
            | Self::ContextInjected { .. }
            | Self::AutonomyAnswered { .. } => &[],
        }
    }
}
