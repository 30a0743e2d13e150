//! Which resolutions fit a decision, and what they mean for it.

use serde_json::Value;

use super::resolution::{
    ApprovalTerms, Misfit, OwnerDecision, ProposedResolution, Resolution, ResolutionType,
};
use super::subject::DecisionSubject;
use crate::ToolCallId;
use crate::text::Feedback;
use crate::value::{Answer, choice, chosen};

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
