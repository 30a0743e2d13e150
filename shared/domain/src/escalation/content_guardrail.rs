//! Guardrails on what an agent receives and on what it submits (S2 `inputGuardrails`, `outputGuardrails`; decision 79).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::guardrail::{ArgumentCondition, GuardrailAction, GuardrailViolation};
use crate::effect::glob_matches;
use crate::names::named;
use crate::output_schema::OutputViolation;
use crate::text::{ArgumentPattern, GuardrailDescription, GuardrailName};

/// A guardrail for texts that are sent to the agent: its objective, messages, instructions, answers, and reasons of decisions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InputGuardrail {
    /// The name, unique in the brief.
    pub name: GuardrailName,
    /// Why the guardrail exists. The sender of a refused text reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<GuardrailDescription>,
    /// The action on a text that fulfils the condition: `block`, `warn` or `log`.
    pub action: GuardrailAction,
    /// To which texts it applies.
    pub condition: InputCondition,
}

/// A condition on a text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InputCondition {
    /// Patterns of the whole text: `*` matches any characters, `?` one. All of them have to match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub text: Vec<ArgumentPattern>,
}

/// A guardrail for outputs of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutputGuardrail {
    /// The name, unique in the brief.
    pub name: GuardrailName,
    /// Why the guardrail exists. The agent reads it if its output is blocked, but not the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<GuardrailDescription>,
    /// The action on an output that fulfils the condition.
    pub action: GuardrailAction,
    /// To which outputs it applies.
    pub condition: OutputCondition,
}

/// A condition on the result of an output. It does not hold for an output without a result.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutputCondition {
    /// Conditions on the result, whose JSON pointers begin at the result. All of them have to hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub result: Vec<ArgumentCondition>,
}

/// What a guardrail judges (S2 `GuardrailEvent.level`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GuardrailLevel {
    Input,
    Output,
    Tool,
}

named!(GuardrailLevel {
    Input => "input",
    Output => "output",
    Tool => "tool",
});

/// The text or output on which a guardrail tripped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TripSubject {
    /// The objective of the session.
    Objective,
    /// A message to the agent, or its new text.
    Message,
    /// An instruction for a retry, or for a summary of the conversation.
    Instruction,
    /// An answer to a question of the agent, in other words than those of its options.
    Answer,
    /// Why a person rejects a plan or a call, or chooses an option.
    Feedback,
    /// An output of the agent.
    Output,
}

named!(TripSubject {
    Objective => "objective",
    Message => "message",
    Instruction => "instruction",
    Answer => "answer",
    Feedback => "feedback",
    Output => "output",
});

impl TripSubject {
    pub const fn level(self) -> GuardrailLevel {
        match self {
            Self::Objective | Self::Message | Self::Instruction | Self::Answer | Self::Feedback => {
                GuardrailLevel::Input
            }
            Self::Output => GuardrailLevel::Output,
        }
    }
}

/// A guardrail whose condition a text or an output fulfilled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GuardrailTrip {
    /// The name of the guardrail.
    pub name: GuardrailName,
    /// What the guardrail does.
    pub action: GuardrailAction,
    /// Why the guardrail exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<GuardrailDescription>,
}

/// A text that guardrails keep from the agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", refusal(*.subject, .trips))]
pub struct BlockedInput {
    pub subject: TripSubject,
    /// All guardrails that tripped. At least one of them blocks.
    pub trips: Vec<GuardrailTrip>,
}

fn refusal(subject: TripSubject, trips: &[GuardrailTrip]) -> String {
    let blocks = || trips.iter().filter(|trip| trip.blocks());
    let names: Vec<_> = blocks().map(|trip| format!("`{}`", trip.name)).collect();
    let why = blocks().find_map(|trip| trip.description.as_ref());
    let why = why.map(|why| format!(" ({})", why.as_str().trim_end_matches('.'))).unwrap_or_default();
    let (guardrails, refuse) =
        if names.len() == 1 { ("guardrail", "refuses") } else { ("guardrails", "refuse") };
    format!(
        "the {guardrails} {} of the agent's brief {refuse} this {subject}{why}; change the {subject}, or the guardrail",
        names.join(", ")
    )
}

impl GuardrailTrip {
    pub const fn blocks(&self) -> bool {
        matches!(self.action, GuardrailAction::Block)
    }

    /// Why an output is returned, for its agent. `None` if the guardrail does not block.
    pub fn objection(&self) -> Option<OutputViolation> {
        let message = || match &self.description {
            Some(why) => format!("is not allowed: {why}"),
            None => "is not allowed by a rule of your brief".to_owned(),
        };
        self.blocks().then(|| OutputViolation { path: String::new(), message: message() })
    }
}

impl InputGuardrail {
    pub const MAX_PATTERNS: usize = 10;

    /// Names every violation with its path below the guardrail.
    pub(super) fn check(&self) -> Vec<(String, GuardrailViolation)> {
        let mut found = Vec::new();
        if self.action == GuardrailAction::Ask {
            found.push((".action".to_owned(), GuardrailViolation::AskAboutInput));
        }
        let patterns = self.condition.text.len();
        if patterns == 0 {
            found.push((".condition".to_owned(), GuardrailViolation::NoText));
        } else if patterns > Self::MAX_PATTERNS {
            let too_many = GuardrailViolation::TooMany { max: Self::MAX_PATTERNS };
            found.push((".condition.text".to_owned(), too_many));
        }
        found
    }

    fn trip(&self, text: &str) -> Option<GuardrailTrip> {
        let trips = self.condition.text.iter().all(|pattern| glob_matches(pattern.as_str(), text));
        trips.then(|| GuardrailTrip {
            name: self.name.clone(),
            action: self.action,
            description: self.description.clone(),
        })
    }

    /// The guardrails that trip on a text for the agent.
    ///
    /// # Errors
    /// [`BlockedInput`] if the agent may not receive the text.
    pub fn judge(
        guardrails: &[Self],
        subject: TripSubject,
        text: &str,
    ) -> Result<Vec<GuardrailTrip>, BlockedInput> {
        let trips: Vec<_> = guardrails.iter().filter_map(|guardrail| guardrail.trip(text)).collect();
        if trips.iter().any(GuardrailTrip::blocks) { Err(BlockedInput { subject, trips }) } else { Ok(trips) }
    }
}

impl OutputGuardrail {
    pub const MAX_CONDITIONS: usize = 10;

    /// Names every violation with its path below the guardrail.
    pub(super) fn check(&self) -> Vec<(String, GuardrailViolation)> {
        let mut found = Vec::new();
        if self.condition.result.is_empty() {
            found.push((".condition".to_owned(), GuardrailViolation::NoResult));
        }
        let conditions = ArgumentCondition::check_all(&self.condition.result, Self::MAX_CONDITIONS);
        found.extend(conditions.map(|(path, violation)| (format!(".condition.result{path}"), violation)));
        found
    }

    /// The trip on an output with this result, if the condition holds.
    pub fn trip(&self, result: &Value) -> Option<GuardrailTrip> {
        let trips = self.condition.result.iter().all(|condition| condition.holds(result));
        trips.then(|| GuardrailTrip {
            name: self.name.clone(),
            action: self.action,
            description: self.description.clone(),
        })
    }
}
