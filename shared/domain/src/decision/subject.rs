//! What a decision is about.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AutomaticRecovery, DecisionKind, DecisionOption};
use crate::brake::BrakeScope;
use crate::coherence::CoherenceCategory;
use crate::effect::{ActionKind, BlastRadius, Effect, Severity};
use crate::escalation::{AskedVerdict, ToolApproval};
use crate::output::SessionOutput;
use crate::text::WorkstreamId;
use crate::trust::{ApprovalCounts, Rate};
use crate::value::{FailureReason, OptionAssessment, OptionProposal, Question};
use crate::{ArtifactId, BrakeId, CoherenceIssueId, OutputId, ProjectId, SessionChainId, ToolCallId};

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
    /// A brake is in force until a person approves its release.
    BrakeRelease {
        brake_id: BrakeId,
        /// The sessions that the brake stops.
        scope: BrakeScope,
        /// Why the brake was pulled.
        brake_reason: String,
    },
    /// An agent of a project failed.
    CrashRecovery {
        failure_reason: FailureReason,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure_message: Option<String>,
        /// Failures in a row without a completed turn between them.
        consecutive_crashes: u32,
        /// How the agent can continue.
        options: Vec<DecisionOption>,
        /// The recovery that happens without a person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        automatic: Option<AutomaticRecovery>,
    },
    /// The work of a session cannot be handed over, because its chain is full.
    HandoffFailed {
        chain_id: SessionChainId,
        /// Why there is no continuation.
        obstacle: String,
        /// What can become of the chain.
        options: Vec<DecisionOption>,
    },
    /// An agent of a project proposes to perform one kind of action without asking (decision 68).
    Autonomy {
        /// The kind of the actions.
        action_kind: ActionKind,
        /// The verdicts of people on such actions so far.
        verdicts: ApprovalCounts,
        /// Lower end of the interval of the approval rate.
        lower_bound: Rate,
    },
    /// A model confirmed that work of different agents does not fit together (decision 91).
    CoherenceReview {
        issue_id: CoherenceIssueId,
        /// The project of the issue.
        project_id: ProjectId,
        /// The title of the issue.
        issue_title: String,
        /// The kind of problem between the parts.
        category: CoherenceCategory,
        /// The reasons of the model.
        explanation: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        suggested_resolution: Option<String>,
        affected_workstreams: Vec<WorkstreamId>,
        affected_artifact_ids: Vec<ArtifactId>,
        /// The outcomes for the issue.
        options: Vec<DecisionOption>,
    },
}

impl DecisionSubject {
    pub const fn kind(&self) -> DecisionKind {
        match self {
            Self::Option { .. } => DecisionKind::Option,
            Self::ToolApproval { .. } => DecisionKind::ToolApproval,
            Self::Question { .. } => DecisionKind::Question,
            Self::Plan { .. } => DecisionKind::Plan,
            Self::OutputReview { .. } => DecisionKind::OutputReview,
            Self::BrakeRelease { .. } => DecisionKind::BrakeRelease,
            Self::CrashRecovery { .. } => DecisionKind::CrashRecovery,
            Self::HandoffFailed { .. } => DecisionKind::HandoffFailed,
            Self::Autonomy { .. } => DecisionKind::Autonomy,
            Self::CoherenceReview { .. } => DecisionKind::CoherenceReview,
        }
    }

    /// The options, of which one is chosen.
    pub fn options(&self) -> Option<&[DecisionOption]> {
        match self {
            Self::Option { options, .. }
            | Self::CrashRecovery { options, .. }
            | Self::HandoffFailed { options, .. }
            | Self::CoherenceReview { options, .. } => Some(options),
            Self::ToolApproval { .. }
            | Self::Question { .. }
            | Self::Plan { .. }
            | Self::OutputReview { .. }
            | Self::BrakeRelease { .. }
            | Self::Autonomy { .. } => None,
        }
    }

    /// The verdict that requires a permission.
    pub fn verdict(&self) -> Option<&AskedVerdict> {
        match self {
            Self::ToolApproval { approval, .. } => approval.verdict.as_deref(),
            Self::Option { .. }
            | Self::Question { .. }
            | Self::Plan { .. }
            | Self::OutputReview { .. }
            | Self::BrakeRelease { .. }
            | Self::CrashRecovery { .. }
            | Self::HandoffFailed { .. }
            | Self::Autonomy { .. }
            | Self::CoherenceReview { .. } => None,
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
            Self::BrakeRelease { .. } | Self::CrashRecovery { .. } | Self::HandoffFailed { .. } => {
                Some((Severity::High, BlastRadius::Small))
            }
            Self::OutputReview { output, .. } if output.is_guarded() => {
                Some((Severity::High, BlastRadius::Small))
            }
            // Nothing stops while it waits.
            Self::Autonomy { .. } => Some((Severity::Low, BlastRadius::Small)),
            // The review of the issue has the severity.
            Self::CoherenceReview { .. }
            | Self::Question { .. }
            | Self::Plan { .. }
            | Self::OutputReview { .. } => None,
        }
    }
}
