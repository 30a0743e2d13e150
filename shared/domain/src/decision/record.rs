//! A decision of the inbox: what waits for a person, and what became of it (decision 74).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::resolution::Resolution;
use super::{DecisionKind, DecisionSubject, DecisionTimeout, OrphanStage, ResolutionType, TimeoutRule};
use crate::effect::{BlastRadius, Severity};
use crate::names::named;
use crate::value::ProjectMembership;
use crate::{AgentSessionId, BrakeId, DecisionId, ProjectId, RunId, Timestamp, UserId};

/// A decision that waits for a person, or did.
///
/// If it belongs to a session, the session is the source of truth. This is then a copy that the transaction of each change writes
/// without a condition. Otherwise it is [free](super::FreeDecision), and guards itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    pub id: DecisionId,
    pub owner_id: UserId,
    /// The session that it is about. Releases of brakes have none.
    #[serde(flatten)]
    pub session: Option<DecisionSession>,
    /// The agent of a project that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectMembership>,
    #[serde(flatten)]
    pub subject: DecisionSubject,
    /// How bad the action can be, if it was classified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// How far the action reaches, if it was classified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blast_radius: Option<BlastRadius>,
    pub created_at: Timestamp,
    /// When it expires; reviews of an output do not. The estimated time of the due tick if it has a timeout in ticks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The timeout in ticks of a project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<DecisionTimeout>,
    #[serde(flatten)]
    pub state: DecisionState,
}

/// The session that a decision is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionSession {
    /// The id of the session. Absent for the release of a brake.
    pub session_id: AgentSessionId,
    /// The name of the session. Absent like `sessionId`.
    pub session_name: String,
}

/// State of a decision. All states but `pending`, `suspended`, `orphaned` and `resolving` are final.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum DecisionState {
    /// A person has to decide.
    Pending,
    /// A brake stops the session. The decision is pending again after the release.
    Suspended { brake_id: BrakeId, since: Timestamp },
    /// The session of a project's agent ended before a person decided (S2, "In-flight decisions on agent kill").
    Orphaned {
        since: Timestamp,
        /// How the session ended.
        reason: CancelReason,
        #[serde(flatten)]
        stage: OrphanStage,
    },
    /// It is decided, and the command with the resolution was sent to the agent.
    Resolving {
        #[serde(flatten)]
        ruling: Ruling,
    },
    /// It is decided.
    Resolved {
        #[serde(flatten)]
        ruling: Ruling,
        /// How the resolution reached an agent; absent if no agent waits for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        delivery: Option<ResolutionDelivery>,
    },
    /// A policy of the project decided.
    AutoResolved {
        #[serde(flatten)]
        ruling: Ruling,
        /// How the resolution reached the agent; absent if no agent waits for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        delivery: Option<ResolutionDelivery>,
    },
    /// Nobody decided in time.
    Expired { ended_at: Timestamp },
    /// It no longer needs a decision.
    Cancelled { ended_at: Timestamp, reason: CancelReason },
}

/// Names of the states, for filters and problem documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DecisionStatus {
    Pending,
    Suspended,
    Orphaned,
    Resolving,
    Resolved,
    AutoResolved,
    Expired,
    Cancelled,
}

named!(DecisionStatus {
    Pending => "pending",
    Suspended => "suspended",
    Orphaned => "orphaned",
    Resolving => "resolving",
    Resolved => "resolved",
    AutoResolved => "auto_resolved",
    Expired => "expired",
    Cancelled => "cancelled",
});

impl DecisionStatus {
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::Suspended,
        Self::Orphaned,
        Self::Resolving,
        Self::Resolved,
        Self::AutoResolved,
        Self::Expired,
        Self::Cancelled,
    ];
}

/// A decision with the state to which a change of its session moved it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionChange {
    pub id: DecisionId,
    pub state: DecisionStatus,
}

/// The resolution that won.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ruling {
    pub resolution: Resolution,
    pub resolved_by: ResolvedBy,
    pub resolved_at: Timestamp,
}

/// Who resolved a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ResolvedBy {
    Owner {
        id: UserId,
    },
    /// The session's default answer applied when the time was over (decision 26).
    DefaultAnswer,
    /// The timeout policy of the project applied (decision 77).
    Timeout {
        rule: TimeoutRule,
    },
    /// The project's policy for orphaned decisions applied.
    OrphanPolicy,
    /// The policy for crash recovery of the project or the agent applied.
    RecoveryPolicy,
}

/// How a resolution reached the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResolutionDelivery {
    /// The sidecar received it.
    Command,
    /// No agent waited any more, so it was sent as a message.
    Message,
    /// The work ended, or the sidecar refused the command, before the agent had it.
    Undelivered,
}

/// Why a decision was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CancelReason {
    /// The tool call that asked returned without an answer.
    Withdrawn,
    /// A newer output replaced the one to review.
    Superseded,
    TurnEnded,
    Interrupted,
    SessionCancelled,
    SessionFailed,
    SessionEnded,
    /// The brake was released in another way.
    BrakeReleased,
    /// The session was retried in another way.
    Retried,
    /// The chain was cancelled in another way.
    ChainEnded,
    /// A brake, a lower approval rate or a changed policy withdrew the proposal of the agent.
    ProposalWithdrawn,
    /// A command settled the coherence issue.
    IssueSettled,
}

/// The id of the decision about `request`, which `run` made in a session. Requests that were stored without their run have none.
pub fn decision_id(session: AgentSessionId, run: Option<RunId>, request: &str) -> DecisionId {
    let run = run.map_or_else(String::new, |run| run.to_string());
    DecisionId::new(Uuid::new_v5(&session.uuid(), format!("{run}\n{request}").as_bytes()))
}

impl Decision {
    pub const fn kind(&self) -> DecisionKind {
        self.subject.kind()
    }

    pub const fn status(&self) -> DecisionStatus {
        self.state.status()
    }

    pub fn session_id(&self) -> Option<AgentSessionId> {
        self.session.as_ref().map(|session| session.session_id)
    }

    /// The project of its agent or of its coherence issue.
    pub fn project_id(&self) -> Option<ProjectId> {
        match &self.subject {
            DecisionSubject::CoherenceReview { project_id, .. } => Some(*project_id),
            _ => self.project.as_ref().map(|of| of.project_id),
        }
    }

    /// The types of resolution that the decision takes while it waits. A call that nothing waits for any more cannot be changed, and what
    /// nobody needs to decide any more can be dismissed.
    pub fn resolutions(&self) -> Vec<ResolutionType> {
        let mut fits = self.subject.resolutions().to_vec();
        if self.status() == DecisionStatus::Orphaned {
            fits.retain(|resolution| *resolution != ResolutionType::Modify);
            fits.push(ResolutionType::Dismiss);
        }
        fits
    }

    /// Severity and blast radius for the order of the inbox. What was not classified counts as medium and small.
    pub fn rank(&self) -> (Severity, BlastRadius) {
        (self.severity.unwrap_or(Severity::Medium), self.blast_radius.unwrap_or(BlastRadius::Small))
    }
}

impl DecisionState {
    pub const fn status(&self) -> DecisionStatus {
        match self {
            Self::Pending => DecisionStatus::Pending,
            Self::Suspended { .. } => DecisionStatus::Suspended,
            Self::Orphaned { .. } => DecisionStatus::Orphaned,
            Self::Resolving { .. } => DecisionStatus::Resolving,
            Self::Resolved { .. } => DecisionStatus::Resolved,
            Self::AutoResolved { .. } => DecisionStatus::AutoResolved,
            Self::Expired { .. } => DecisionStatus::Expired,
            Self::Cancelled { .. } => DecisionStatus::Cancelled,
        }
    }

    /// Whether the state cannot change any more.
    pub const fn is_final(&self) -> bool {
        match self {
            Self::Pending | Self::Suspended { .. } | Self::Orphaned { .. } | Self::Resolving { .. } => false,
            Self::Resolved { .. }
            | Self::AutoResolved { .. }
            | Self::Expired { .. }
            | Self::Cancelled { .. } => true,
        }
    }

    pub const fn ruling(&self) -> Option<&Ruling> {
        match self {
            Self::Resolving { ruling }
            | Self::Resolved { ruling, .. }
            | Self::AutoResolved { ruling, .. } => Some(ruling),
            Self::Pending
            | Self::Suspended { .. }
            | Self::Orphaned { .. }
            | Self::Expired { .. }
            | Self::Cancelled { .. } => None,
        }
    }

    /// When the decision was taken, expired or was cancelled.
    pub const fn ended_at(&self) -> Option<Timestamp> {
        match self {
            Self::Pending | Self::Suspended { .. } | Self::Orphaned { .. } => None,
            Self::Resolving { ruling }
            | Self::Resolved { ruling, .. }
            | Self::AutoResolved { ruling, .. } => Some(ruling.resolved_at),
            Self::Expired { ended_at } | Self::Cancelled { ended_at, .. } => Some(*ended_at),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn id_depends_on_session_run_and_request() {
        let session: AgentSessionId = "01900000-0000-7000-8000-000000000001".parse().unwrap();
        let other: AgentSessionId = "01900000-0000-7000-8000-000000000002".parse().unwrap();
        let run: RunId = "01900000-0000-7000-8000-000000000003".parse().unwrap();
        let id = decision_id(session, Some(run), "toolu_1");
        assert_eq!(id, decision_id(session, Some(run), "toolu_1"));
        assert_eq!(id.to_string(), "64257624-0d20-5ac5-850e-e7c6128771b7", "stored ids stay");
        for changed in [
            decision_id(other, Some(run), "toolu_1"),
            decision_id(session, None, "toolu_1"),
            decision_id(session, Some(run), "toolu_2"),
        ] {
            assert_ne!(changed, id);
        }
    }
}
