//! A decision of the inbox: what waits for a person, and what became of it (decision 74).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::resolution::Resolution;
use super::{DecisionKind, DecisionOption, DecisionTimeout, TimeoutRule};
use crate::effect::{BlastRadius, Effect, Severity};
use crate::names::named;
use crate::value::{
    AskedVerdict, OptionAssessment, OptionProposal, ProjectMembership, Question, SessionOutput, ToolApproval,
};
use crate::{AgentSessionId, BrakeId, DecisionId, OutputId, RunId, Timestamp, ToolCallId, UserId};

/// A decision that waits for a person, or did.
///
/// The session is the source of truth. This is a copy that the transaction of each change writes without a condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    pub id: DecisionId,
    pub owner_id: UserId,
    pub session_id: AgentSessionId,
    pub session_name: String,
    /// The agent of a project that asked.
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

/// What is to be decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum DecisionSubject {
    /// The agent proposes options, of which one is chosen.
    Option {
        /// Id of the request in the session's `pendingRequests`.
        request_id: ToolCallId,
        question: String,
        options: Vec<DecisionOption>,
        /// How the agent assesses the options, if it proposed them with `request_decision`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        assessment: Option<Box<OptionAssessment>>,
    },
    /// A tool call needs permission.
    ToolApproval {
        /// Id of the request in the session's `pendingRequests`.
        request_id: ToolCallId,
        /// Text of the question that asks for the permission.
        question: String,
        #[serde(flatten)]
        approval: ToolApproval,
    },
    /// Questions that need an answer.
    Question {
        /// Id of the request in the session's `pendingRequests`.
        request_id: ToolCallId,
        questions: Vec<Question>,
    },
    /// A plan needs approval.
    Plan {
        /// Id of the request in the session's `pendingRequests`.
        request_id: ToolCallId,
        /// Revision of the plan.
        version: u32,
    },
    /// An output needs a review.
    OutputReview { output_id: OutputId, output: SessionOutput },
}

/// State of a decision. All states but `pending`, `suspended` and `resolving` are final.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum DecisionState {
    /// A person has to decide.
    Pending,
    /// A brake stops the session. The decision is pending again after the release.
    Suspended { brake_id: BrakeId, since: Timestamp },
    /// It is decided, and the command with the resolution was sent to the agent.
    Resolving {
        #[serde(flatten)]
        ruling: Ruling,
    },
    /// It is decided.
    Resolved {
        #[serde(flatten)]
        ruling: Ruling,
        /// How the resolution reached the agent; absent for reviews of an output.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        delivery: Option<ResolutionDelivery>,
    },
    /// A timeout decided, by the policy of the project.
    AutoResolved {
        #[serde(flatten)]
        ruling: Ruling,
        /// How the resolution reached the agent.
        delivery: ResolutionDelivery,
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
    Resolving,
    Resolved,
    AutoResolved,
    Expired,
    Cancelled,
}

named!(DecisionStatus {
    Pending => "pending",
    Suspended => "suspended",
    Resolving => "resolving",
    Resolved => "resolved",
    AutoResolved => "auto_resolved",
    Expired => "expired",
    Cancelled => "cancelled",
});

impl DecisionStatus {
    pub const ALL: [Self; 7] = [
        Self::Pending,
        Self::Suspended,
        Self::Resolving,
        Self::Resolved,
        Self::AutoResolved,
        Self::Expired,
        Self::Cancelled,
    ];
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

    /// Severity and blast radius for the order of the inbox. What was not classified counts as medium and small.
    pub fn rank(&self) -> (Severity, BlastRadius) {
        (self.severity.unwrap_or(Severity::Medium), self.blast_radius.unwrap_or(BlastRadius::Small))
    }
}

impl DecisionSubject {
    pub const fn kind(&self) -> DecisionKind {
        match self {
            Self::Option { .. } => DecisionKind::Option,
            Self::ToolApproval { .. } => DecisionKind::ToolApproval,
            Self::Question { .. } => DecisionKind::Question,
            Self::Plan { .. } => DecisionKind::Plan,
            Self::OutputReview { .. } => DecisionKind::OutputReview,
        }
    }

    /// The verdict that requires a permission.
    pub fn verdict(&self) -> Option<&AskedVerdict> {
        match self {
            Self::ToolApproval { approval, .. } => approval.verdict.as_deref(),
            Self::Option { .. } | Self::Question { .. } | Self::Plan { .. } | Self::OutputReview { .. } => {
                None
            }
        }
    }

    /// The subject of questions: options that the agent proposes, a permission, one question with options to choose from, or any
    /// other questions.
    pub fn of_questions(
        request_id: ToolCallId,
        questions: &[Question],
        approval: Option<&ToolApproval>,
        proposal: Option<&OptionProposal>,
    ) -> Self {
        match (questions, approval, proposal) {
            ([question], None, Some(proposal)) => Self::Option {
                request_id,
                question: question.question.clone(),
                options: proposal.options.iter().map(DecisionOption::proposed).collect(),
                assessment: Some(Box::new(proposal.assessment.clone())),
            },
            ([question], Some(approval), _) => Self::ToolApproval {
                request_id,
                question: question.question.clone(),
                approval: approval.clone(),
            },
            ([question], None, None) if question.options.len() > 1 && !question.multi_select => {
                Self::Option {
                    request_id,
                    question: question.question.clone(),
                    options: DecisionOption::number(&question.options),
                    assessment: None,
                }
            }
            _ => Self::Question { request_id, questions: questions.to_vec() },
        }
    }

    /// The strictest classification of the action, or the agent's assessment within its bounds. Calls outside of projects are not
    /// classified, which counts as high and unknown.
    pub fn classification(&self) -> Option<(Severity, BlastRadius)> {
        match self {
            Self::ToolApproval { approval, .. } => Some(approval.verdict.as_ref().map_or(
                (Effect::UNCLASSIFIED.severity, Effect::UNCLASSIFIED.blast_radius),
                |verdict| {
                    let levels = verdict.effects.levels();
                    (levels.severity, levels.blast_radius)
                },
            )),
            Self::Option { assessment, .. } => assessment.as_ref().and_then(|it| it.levels()),
            Self::Question { .. } | Self::Plan { .. } | Self::OutputReview { .. } => None,
        }
    }
}

impl DecisionState {
    pub const fn status(&self) -> DecisionStatus {
        match self {
            Self::Pending => DecisionStatus::Pending,
            Self::Suspended { .. } => DecisionStatus::Suspended,
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
            Self::Pending | Self::Suspended { .. } | Self::Resolving { .. } => false,
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
            Self::Pending | Self::Suspended { .. } | Self::Expired { .. } | Self::Cancelled { .. } => None,
        }
    }

    /// When the decision was taken, expired or was cancelled.
    pub const fn ended_at(&self) -> Option<Timestamp> {
        match self {
            Self::Pending | Self::Suspended { .. } => None,
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
