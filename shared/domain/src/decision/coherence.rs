//! The outcomes of a coherence issue that a model confirmed (S2, "LLM-based deep review"; decision 91).

use super::DecisionOption;
use super::recovery::described;
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
