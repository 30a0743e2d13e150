//! Decisions in the checks of coherence: the choices that artifacts are compared with, and the outcomes of an issue that a model
//! confirmed (S2, "LLM-based deep review"; decision 91).

use super::recovery::described;
use super::{Decision, DecisionOption, DecisionSubject, Resolution};
use crate::coherence::ResolvedDecision;
use crate::names::named;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoherenceOutcome {
    Resolve,
    /// It is real and waits for its resolution.
    KeepOpen,
    Dismiss,
}

named!(CoherenceOutcome {
    Resolve => "resolve",
    KeepOpen => "keep_open",
    Dismiss => "dismiss",
});

impl CoherenceOutcome {
    pub const ALL: [Self; 3] = [Self::Resolve, Self::KeepOpen, Self::Dismiss];

    /// The outcome with the id of an option.
    pub fn of_option(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.to_string() == id)
    }

    /// The options of a decision.
    pub fn options() -> Vec<DecisionOption> {
        let option = |outcome: Self| {
            let (label, description) = match outcome {
                Self::Resolve => {
                    ("Resolve", "The parts fit together now. It no longer counts for the score.")
                }
                Self::KeepOpen => ("Keep open", "It is real, and counts until it is resolved."),
                Self::Dismiss => ("Dismiss", "It is not real. The same finding is not reported again."),
            };
            described(outcome.to_string(), label, description)
        };
        Self::ALL.into_iter().map(option).collect()
    }
}

impl ResolvedDecision {
    /// The choice of a decision in a project; `None` for other kinds of decisions, and before somebody has decided.
    pub fn of(decision: &Decision) -> Option<Self> {
        let membership = decision.project.as_ref()?;
        let DecisionSubject::Option { question, options, assessment, .. } = &decision.subject else {
            return None;
        };
        let ruling = decision.state.ruling()?;
        let (choice, description, reason) = match &ruling.resolution {
            Resolution::ChooseOption { chosen_option_id, rationale } => {
                let option = &options.iter().find(|option| option.id == *chosen_option_id)?.option;
                (option.label.clone(), option.description.clone(), rationale.clone())
            }
            Resolution::Answer { answers } => {
                let answers: Vec<_> = answers.iter().map(|answer| answer.answer.as_str()).collect();
                (answers.join("\n"), None, None)
            }
            Resolution::Approve { .. }
            | Resolution::Modify { .. }
            | Resolution::Reject { .. }
            | Resolution::Dismiss => return None,
        };
        let named = assessment.iter().flat_map(|assessment| &assessment.affected_artifact_ids);
        Some(Self {
            decision_id: decision.id,
            project_id: membership.project_id,
            agent_id: membership.agent_id,
            workstream: membership.workstream.clone(),
            question: question.clone(),
            choice,
            description,
            reason,
            affected_artifact_ids: named.filter_map(|id| id.parse().ok()).collect(),
            resolved_at: ruling.resolved_at,
        })
    }
}
