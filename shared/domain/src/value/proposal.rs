//! Options that an agent proposes to its owner (S2 `OptionDecisionEvent`; decision 80).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Question, QuestionOption};
use crate::effect::{BlastRadius, Confidence, Severity};
use crate::text::cut;

/// Options of which the owner chooses one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OptionProposal {
    pub options: Vec<ProposedOption>,
    #[serde(flatten)]
    pub assessment: OptionAssessment,
}

/// An option of a proposal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProposedOption {
    /// Id that the agent assigned.
    pub id: String,
    pub label: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What is gained and lost with this option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tradeoffs: Option<String>,
}

/// How the agent assesses what it proposes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OptionAssessment {
    /// The option that the agent recommends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommended_option_id: Option<String>,
    /// How sure the agent is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// How bad a wrong choice is, in the words of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// How far the choice reaches, in the words of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blast_radius: Option<BlastRadius>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub affected_artifact_ids: Vec<String>,
    /// Whether the owner has to say why.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requires_rationale: bool,
    /// Whether the agent's input did not fit, and only the parts that fit are shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repaired: bool,
}

impl OptionProposal {
    pub const MAX_OPTIONS: usize = 9;
    /// Most characters of ids.
    pub const MAX_ID: usize = 64;
    pub const MAX_LABEL: usize = 100;
    /// Most characters of a description, and of trade-offs.
    pub const MAX_TEXT: usize = 300;
    pub const MAX_ARTIFACTS: usize = 20;

    /// The proposal as a question, for clients and agents that know nothing else.
    pub fn as_question(&self, question: String) -> Question {
        let option = |it: &ProposedOption| QuestionOption { label: it.label.clone(), description: None };
        Question {
            question,
            header: None,
            options: self.options.iter().map(option).collect(),
            multi_select: false,
        }
    }

    /// Shortens the texts to the limits, and drops options that cannot be told apart. `None` without an option to choose.
    pub fn fitting(mut self) -> Option<Self> {
        self.options.truncate(Self::MAX_OPTIONS);
        for option in &mut self.options {
            option.id = cut(option.id.trim(), Self::MAX_ID);
            option.label = cut(option.label.trim(), Self::MAX_LABEL);
            let texts = [&mut option.description, &mut option.tradeoffs];
            texts.into_iter().flatten().for_each(|text| *text = cut(text, Self::MAX_TEXT));
        }
        let mut kept: Vec<ProposedOption> = Vec::new();
        for option in self.options {
            let is_taken = |other: &ProposedOption| other.id == option.id || other.label == option.label;
            if !option.id.is_empty() && !option.label.is_empty() && !kept.iter().any(is_taken) {
                kept.push(option);
            }
        }
        let assessment = &mut self.assessment;
        assessment.recommended_option_id.take_if(|id| kept.iter().all(|option| option.id != *id));
        assessment.affected_artifact_ids.truncate(Self::MAX_ARTIFACTS);
        assessment.affected_artifact_ids.iter_mut().for_each(|id| *id = cut(id, Self::MAX_LABEL));
        (!kept.is_empty()).then_some(Self { options: kept, assessment: self.assessment })
    }
}

impl OptionAssessment {
    /// The place in the inbox. The agent can move its decision up to high severity and a large reach, and not below those of
    /// other choices. `None` if it assesses nothing.
    pub fn levels(&self) -> Option<(Severity, BlastRadius)> {
        if self.severity.is_none() && self.blast_radius.is_none() {
            return None;
        }
        let severity = self.severity.unwrap_or(Severity::Medium).clamp(Severity::Medium, Severity::High);
        let radius =
            self.blast_radius.unwrap_or(BlastRadius::Small).clamp(BlastRadius::Small, BlastRadius::Large);
        Some((severity, radius))
    }
}

/// The answer that chooses the option with this label, and says why.
pub fn choice(label: &str, rationale: Option<&str>) -> String {
    rationale.map_or_else(|| label.to_owned(), |why| format!("{label}: {why}"))
}

/// Which of the labels an answer chooses, and why. A label that contains another one takes precedence.
pub fn chosen<'a>(
    labels: impl Iterator<Item = &'a str>,
    answer: &'a str,
) -> Option<(usize, Option<&'a str>)> {
    let matching = labels.enumerate().filter_map(|(at, label)| {
        let rest = answer.strip_prefix(label)?;
        let why = if rest.is_empty() { None } else { Some(rest.strip_prefix(": ")?) };
        Some((label.len(), at, why))
    });
    matching.max_by_key(|(length, ..)| *length).map(|(_, at, why)| (at, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposed(id: &str, label: &str) -> ProposedOption {
        ProposedOption { id: id.to_owned(), label: label.to_owned(), description: None, tradeoffs: None }
    }

    #[test]
    fn options_that_cannot_be_told_apart_are_dropped() {
        let options =
            vec![proposed("a", "Red"), proposed("a", "Blue"), proposed("b", " Red "), proposed("", "x")];
        let assessment =
            OptionAssessment { recommended_option_id: Some("b".to_owned()), ..OptionAssessment::default() };
        let fitting = OptionProposal { options, assessment }.fitting().unwrap();
        assert_eq!(fitting.options, [proposed("a", "Red")]);
        assert_eq!(fitting.assessment.recommended_option_id, None, "it recommends nothing that is left");
        let none =
            OptionProposal { options: vec![proposed("", "")], assessment: OptionAssessment::default() };
        assert_eq!(none.fitting(), None);
    }

    #[test]
    fn agent_moves_its_decision_only_within_bounds() {
        let of = |severity, blast_radius| {
            OptionAssessment { severity, blast_radius, ..Default::default() }.levels()
        };
        assert_eq!(of(None, None), None);
        assert_eq!(of(Some(Severity::Low), None), Some((Severity::Medium, BlastRadius::Small)));
        let most = Some((Severity::High, BlastRadius::Large));
        assert_eq!(of(Some(Severity::Critical), Some(BlastRadius::Unknown)), most);
    }

    #[test]
    fn choice_is_read_with_its_reason() {
        let labels = ["Red", "Red: dark", "Blue"];
        for (at, label) in labels.into_iter().enumerate() {
            assert_eq!(chosen(labels.into_iter(), &choice(label, None)), Some((at, None)));
            let reasoned = choice(label, Some("it fits"));
            assert_eq!(chosen(labels.into_iter(), &reasoned), Some((at, Some("it fits"))));
        }
        assert_eq!(chosen(labels.into_iter(), "Bluer"), None);
    }
}
