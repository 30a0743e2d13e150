//! Resolutions of decisions (S2 `Resolution`): what a person may answer, and the command that it becomes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::names::named;
use crate::text::Feedback;
use crate::value::{Answer, ProposedOption, QuestionOption};
use crate::{OutputId, ToolCallId};

/// An option to choose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionOption {
    /// Its id, which the agent assigned, or its number in the list, from 1.
    pub id: String,
    #[serde(flatten)]
    pub option: QuestionOption,
    /// What is gained and lost with this option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tradeoffs: Option<String>,
}

impl DecisionOption {
    pub(super) fn number(options: &[QuestionOption]) -> Vec<Self> {
        let numbered = |(at, option): (usize, &QuestionOption)| Self {
            id: (at + 1).to_string(),
            option: option.clone(),
            tradeoffs: None,
        };
        options.iter().enumerate().map(numbered).collect()
    }

    pub(super) fn proposed(option: &ProposedOption) -> Self {
        let ProposedOption { id, label, description, tradeoffs } = option.clone();
        Self { id, option: QuestionOption { label, description }, tradeoffs }
    }
}

/// A resolution as it is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "resolutionType", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Resolution {
    Answer {
        answers: Vec<Answer>,
    },
    ChooseOption {
        chosen_option_id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rationale: Option<String>,
    },
    Approve {
        /// Whether all further calls like it are approved for the session.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        always_approve: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rationale: Option<String>,
    },
    /// The tool call is allowed with another input.
    Modify {
        modified_input: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rationale: Option<String>,
    },
    Reject {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rationale: Option<String>,
    },
    /// Nothing is decided, because nobody needs it any more.
    Dismiss,
}

impl Resolution {
    /// The approval of something once, without a reason.
    pub const APPROVE: Self = Self::Approve { always_approve: false, rationale: None };

    pub const fn resolution_type(&self) -> ResolutionType {
        match self {
            Self::Answer { .. } => ResolutionType::Answer,
            Self::ChooseOption { .. } => ResolutionType::ChooseOption,
            Self::Approve { .. } => ResolutionType::Approve,
            Self::Modify { .. } => ResolutionType::Modify,
            Self::Reject { .. } => ResolutionType::Reject,
            Self::Dismiss => ResolutionType::Dismiss,
        }
    }

    /// Whether all further calls like the approved one are allowed for the session.
    pub const fn approves_always(&self) -> bool {
        matches!(self, Self::Approve { always_approve: true, .. })
    }
}

/// The type of a resolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResolutionType {
    Answer,
    ChooseOption,
    Approve,
    Modify,
    Reject,
    Dismiss,
}

named!(ResolutionType {
    Answer => "answer",
    ChooseOption => "choose_option",
    Approve => "approve",
    Modify => "modify",
    Reject => "reject",
    Dismiss => "dismiss",
});

impl ResolutionType {
    pub const ALL: [Self; 6] =
        [Self::Answer, Self::ChooseOption, Self::Approve, Self::Modify, Self::Reject, Self::Dismiss];
}

/// A resolution as a person sends it. It may not fit the decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProposedResolution {
    pub resolution_type: ResolutionType,
    pub chosen_option_id: Option<String>,
    pub answers: Option<Vec<Answer>>,
    pub rationale: Option<Feedback>,
    pub always_approve: bool,
    pub modified_input: Option<Value>,
}

/// How the owner allows a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalTerms {
    /// All further calls like it are approved for the session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub always: bool,
    /// The input with which the call is made instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_input: Option<Value>,
    /// Why it is allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rationale: Option<Feedback>,
}

/// Why a resolution does not fit its decision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {message}")]
pub struct Misfit {
    /// The field of the request, in camelCase.
    pub field: &'static str,
    pub message: String,
}

/// The owner's decision on a request or an output. Every route that decides makes one of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnerDecision {
    Answer { request: ToolCallId, answers: Vec<Answer> },
    AllowCall { request: ToolCallId, terms: ApprovalTerms },
    ApprovePlan { request: ToolCallId },
    RejectPlan { request: ToolCallId, feedback: Feedback },
    ApproveOutput { output: OutputId },
    RejectOutput { output: OutputId, reason: Option<Feedback> },
}

impl ApprovalTerms {
    /// Most bytes of a changed input as JSON. The session stores it until the agent has it.
    pub const MAX_INPUT: usize = 32 * 1024;

    /// The resolution with these terms.
    pub(crate) fn resolution(&self) -> Resolution {
        let rationale = self.rationale.as_ref().map(|why| why.as_str().to_owned());
        match &self.modified_input {
            Some(input) => Resolution::Modify { modified_input: input.clone(), rationale },
            None => Resolution::Approve { always_approve: self.always, rationale },
        }
    }
}
