//! What a person says to the agent in a resolution (decision 79).

use super::{DecisionSubject, Resolution};
use crate::escalation::TripSubject;
use crate::value::Answer;

impl Resolution {
    /// The words of a person that the agent receives. The options that an agent offers are its own words.
    pub fn words(&self, subject: &DecisionSubject) -> Vec<(TripSubject, &str)> {
        match self {
            Self::Answer { answers } => {
                let own = answers.iter().filter(|answer| !subject.offers(answer));
                own.map(|answer| (TripSubject::Answer, answer.answer.as_str())).collect()
            }
            Self::ChooseOption { rationale, .. } | Self::Reject { rationale } => {
                rationale.iter().map(|why| (TripSubject::Feedback, why.as_str())).collect()
            }
            // The agent does not receive why its call is allowed.
            Self::Approve { .. } | Self::Modify { .. } | Self::Dismiss => Vec::new(),
        }
    }
}

impl DecisionSubject {
    /// Whether an answer consists of labels of the question's options.
    fn offers(&self, given: &Answer) -> bool {
        let Self::Question { questions, .. } = self else { return false };
        questions.iter().filter(|asked| asked.question == given.question).any(|asked| {
            let is_label = |text: &str| asked.options.iter().any(|option| option.label == text.trim());
            is_label(&given.answer) || given.answer.split(',').all(is_label)
        })
    }
}
