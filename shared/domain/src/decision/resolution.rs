//! Resolutions of decisions (S2 `Resolution`): what a person may answer, and the command that it becomes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::DecisionSubject;
use crate::names::named;
use crate::text::Feedback;
use crate::value::{Answer, ProposedOption, QuestionOption, choice, chosen};
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

impl DecisionSubject {
    /// The types of resolution that fit.
    pub const fn resolutions(&self) -> &'static [ResolutionType] {
        match self {
            Self::Option { .. } => &[ResolutionType::ChooseOption, ResolutionType::Answer],
            Self::Question { .. } => &[ResolutionType::Answer],
            Self::ToolApproval { approval, .. } if approval.modifiable => {
                &[ResolutionType::Approve, ResolutionType::Modify, ResolutionType::Reject]
            }
            Self::ToolApproval { .. }
            | Self::Plan { .. }
            | Self::OutputReview { .. }
            | Self::BrakeRelease { .. }
            | Self::Autonomy { .. } => &[ResolutionType::Approve, ResolutionType::Reject],
            Self::CrashRecovery { .. } | Self::HandoffFailed { .. } | Self::CoherenceReview { .. } => {
                &[ResolutionType::ChooseOption]
            }
        }
    }

    /// The owner's decision that a resolution means.
    ///
    /// # Errors
    /// Every part of the resolution that does not fit.
    pub fn decide(&self, proposed: &ProposedResolution) -> Result<OwnerDecision, Vec<Misfit>> {
        let mut misfits = self.misfits(proposed, self.resolutions());
        let decision = if misfits.is_empty() { self.fitting(proposed) } else { None };
        if decision.is_none() && misfits.is_empty() {
            misfits.push(misfit("resolutionType", "does not fit this decision"));
        }
        decision.ok_or(misfits)
    }

    fn fitting(&self, proposed: &ProposedResolution) -> Option<OwnerDecision> {
        use ResolutionType as T;
        let ProposedResolution {
            resolution_type,
            chosen_option_id,
            answers,
            rationale,
            always_approve,
            modified_input,
        } = proposed.clone();
        let one = |request: &ToolCallId, question: &str, answer: String| OwnerDecision::Answer {
            request: request.clone(),
            answers: vec![Answer { question: question.to_owned(), answer }],
        };
        Some(match (self, resolution_type) {
            (Self::Option { request_id, .. } | Self::Question { request_id, .. }, T::Answer) => {
                OwnerDecision::Answer { request: request_id.clone(), answers: answers? }
            }
            (Self::Option { request_id, question, options, .. }, T::ChooseOption) => {
                let chosen = options.iter().find(|option| Some(&option.id) == chosen_option_id.as_ref())?;
                let why = rationale.as_ref().map(Feedback::as_str);
                one(request_id, question, choice(&chosen.option.label, why))
            }
            (Self::ToolApproval { request_id, .. }, T::Approve) => OwnerDecision::AllowCall {
                request: request_id.clone(),
                terms: ApprovalTerms { always: always_approve, modified_input: None, rationale },
            },
            (Self::ToolApproval { request_id, .. }, T::Modify) => OwnerDecision::AllowCall {
                request: request_id.clone(),
                terms: ApprovalTerms { always: false, modified_input: Some(modified_input?), rationale },
            },
            (Self::ToolApproval { request_id, question, approval }, T::Reject) => {
                one(request_id, question, approval.denial(rationale.as_ref().map(Feedback::as_str)))
            }
            (Self::Plan { request_id, .. }, T::Approve) => {
                OwnerDecision::ApprovePlan { request: request_id.clone() }
            }
            (Self::Plan { request_id, .. }, T::Reject) => {
                OwnerDecision::RejectPlan { request: request_id.clone(), feedback: rationale? }
            }
            (Self::OutputReview { output_id, .. }, T::Approve) => {
                OwnerDecision::ApproveOutput { output: *output_id }
            }
            (Self::OutputReview { output_id, .. }, T::Reject) => {
                OwnerDecision::RejectOutput { output: *output_id, reason: rationale }
            }
            _ => return None,
        })
    }

    /// The parts of a resolution that do not fit. `fits` are the types that do.
    pub(super) fn misfits(&self, proposed: &ProposedResolution, fits: &[ResolutionType]) -> Vec<Misfit> {
        use ResolutionType as T;
        let ProposedResolution { resolution_type, chosen_option_id, answers, rationale, .. } = proposed;
        let mut misfits = Vec::new();
        if !fits.contains(resolution_type) {
            let names: Vec<_> = fits.iter().map(ToString::to_string).collect();
            let message = format!("must be {} for a decision of kind {}", names.join(" or "), self.kind());
            misfits.push(misfit("resolutionType", message));
        }
        match (resolution_type, chosen_option_id) {
            (T::ChooseOption, None) => misfits.push(misfit("chosenOptionId", "is required")),
            (T::ChooseOption, Some(id)) => {
                if let Some(options) = self.options()
                    && options.iter().all(|option| option.id != *id)
                {
                    let ids: Vec<_> = options.iter().map(|option| option.id.as_str()).collect();
                    misfits.push(misfit("chosenOptionId", format!("must be one of {}", ids.join(", "))));
                }
            }
            (_, Some(_)) => misfits.push(misfit("chosenOptionId", "applies to choose_option only")),
            (_, None) => {}
        }
        match (resolution_type, answers) {
            (T::Answer, None) => misfits.push(misfit("answers", "is required")),
            (T::Answer, Some(answers)) => misfits.extend(self.unanswered(answers)),
            (_, Some(_)) => misfits.push(misfit("answers", "applies to answer only")),
            (_, None) => {}
        }
        let assessment = match self {
            Self::Option { assessment, .. } => assessment.as_deref(),
            _ => None,
        };
        let needs_rationale = matches!((self, resolution_type), (Self::Plan { .. }, T::Reject));
        match (resolution_type, rationale) {
            (T::Reject, None) if needs_rationale => {
                misfits.push(misfit("rationale", "is required, so that the agent knows what to change"));
            }
            (T::ChooseOption, None) if assessment.is_some_and(|it| it.requires_rationale) => {
                misfits.push(misfit("rationale", "is required by the agent that proposes the options"));
            }
            (T::Approve | T::Modify, None)
                if self.verdict().is_some_and(|verdict| verdict.requires_rationale) =>
            {
                misfits.push(misfit("rationale", "is required by the project for calls of this tool"));
            }
            (T::Approve | T::Modify, _) if self.verdict().is_some() => {}
            (T::ChooseOption, _) if assessment.is_some() => {}
            (T::ChooseOption, _) if matches!(self, Self::CoherenceReview { .. }) => {}
            (T::Reject, _) | (_, None) => {}
            (_, Some(_)) => {
                misfits.push(misfit(
                    "rationale",
                    "applies to reject, to tool calls of a project's agents, to options that an agent proposes with its reasons, and \
                     to coherence issues",
                ));
            }
        }
        misfits.extend(self.misfits_of_terms(proposed));
        misfits
    }

    fn misfits_of_terms(&self, proposed: &ProposedResolution) -> Vec<Misfit> {
        use ResolutionType as T;
        let mut misfits = Vec::new();
        if proposed.always_approve && proposed.resolution_type != T::Approve {
            misfits.push(misfit("alwaysApprove", "applies to approve only"));
        } else if proposed.always_approve && self.verdict().is_none() {
            misfits.push(misfit("alwaysApprove", "applies to tool calls of a project's agents only"));
        }
        match (proposed.resolution_type, &proposed.modified_input) {
            (T::Modify, None) => misfits.push(misfit("modifiedInput", "is required")),
            (T::Modify, Some(input @ Value::Object(_))) => {
                if input.to_string().len() > ApprovalTerms::MAX_INPUT {
                    let most = format!("must have at most {} KiB", ApprovalTerms::MAX_INPUT / 1024);
                    misfits.push(misfit("modifiedInput", most));
                }
            }
            (_, None) => {}
            (T::Modify, Some(_)) => misfits.push(misfit("modifiedInput", "must be an object")),
            (_, Some(_)) => misfits.push(misfit("modifiedInput", "applies to modify only")),
        }
        misfits
    }

    /// Questions without exactly one answer, and answers to questions that were not asked.
    fn unanswered(&self, answers: &[Answer]) -> Vec<Misfit> {
        let asked: Vec<&str> = match self {
            Self::Option { question, .. } => vec![question],
            Self::Question { questions, .. } => questions.iter().map(|q| q.question.as_str()).collect(),
            Self::ToolApproval { .. }
            | Self::Plan { .. }
            | Self::OutputReview { .. }
            | Self::BrakeRelease { .. }
            | Self::CrashRecovery { .. }
            | Self::HandoffFailed { .. }
            | Self::Autonomy { .. }
            | Self::CoherenceReview { .. } => return Vec::new(),
        };
        let count = |question: &str| answers.iter().filter(|answer| answer.question == question).count();
        let missing = asked.iter().filter(|question| count(question) != 1);
        let missing = missing.map(|question| format!("must have one answer to `{question}`"));
        let unknown = answers.iter().filter(|answer| !asked.contains(&answer.question.as_str()));
        let unknown =
            unknown.map(|answer| format!("must not answer `{}`, which was not asked", answer.question));
        missing.chain(unknown).map(|message| misfit("answers", message)).collect()
    }

    /// The resolution that answers to questions mean.
    pub(crate) fn resolution_of(&self, answers: &[Answer]) -> Resolution {
        let given = || Resolution::Answer { answers: answers.to_vec() };
        let [Answer { answer, .. }] = answers else { return given() };
        match self {
            Self::Option { options, assessment, .. } => {
                let labels = options.iter().map(|option| option.option.label.as_str());
                let found = chosen(labels, answer).filter(|(_, why)| why.is_none() || assessment.is_some());
                let option = found.and_then(|(at, why)| Some((options.get(at)?, why)));
                option.map_or_else(given, |(option, why)| Resolution::ChooseOption {
                    chosen_option_id: option.id.clone(),
                    rationale: why.map(str::to_owned),
                })
            }
            Self::ToolApproval { approval, .. } if approval.is_allowed_by(answer) => Resolution::APPROVE,
            Self::ToolApproval { approval, .. } if answer.eq_ignore_ascii_case(&approval.deny) => {
                Resolution::Reject { rationale: None }
            }
            Self::ToolApproval { approval, .. } => approval
                .reason_of(answer)
                .map_or_else(given, |why| Resolution::Reject { rationale: Some(why.to_owned()) }),
            _ => given(),
        }
    }
}

pub(super) fn misfit(field: &'static str, message: impl Into<String>) -> Misfit {
    Misfit { field, message: message.into() }
}
