//! Guardrails on tool calls, and what all guardrails of a brief have in common (S2 `GuardrailSpec`; decision 79).

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::tool_call::ToolCall;
use crate::effect::{ActionKind, ToolGlob, glob_matches};
use crate::text::{ArgumentPattern, GuardrailDescription, GuardrailName};

/// A guardrail for tool calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolGuardrail {
    /// The name, unique in the brief. The decision log has it.
    pub name: GuardrailName,
    /// Why the guardrail exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<GuardrailDescription>,
    /// The action on a call that fulfils the condition.
    pub action: GuardrailAction,
    /// To which calls it applies.
    pub condition: CallCondition,
}

/// The action of a guardrail on a tool call, a text for the agent, or an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GuardrailAction {
    /// The call is denied, the text is refused, or the output is returned to the agent.
    Block,
    /// A person decides about each such call, or reviews the output before all others. Not possible for a text.
    Ask,
    /// The call is judged by the other rules, the text or the output is accepted, and the decision log names the guardrail.
    Warn,
    /// The same.
    Log,
}

/// Fulfilled if all of its parts are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallCondition {
    /// A pattern of tool names: `*` matches any characters, `?` one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolGlob>,
    /// What the call does: one of these at least. Unlike `arguments`, this does not depend on how a command is written.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub action_kinds: BTreeSet<ActionKind>,
    /// Conditions on the arguments. All of them have to hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<ArgumentCondition>,
}

/// A condition on an argument of a tool call, or on a value of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArgumentCondition {
    /// A JSON pointer to the value, such as `/command`. By default, any text in the arguments or the result counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// A pattern of the whole text: `*` matches any characters, `?` one.
    pub matches: ArgumentPattern,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuardrailViolation {
    #[error("must have at most {max} guardrails in total")]
    TooManyGuardrails { max: usize },
    #[error("must have at most {max_kib} KiB")]
    TooLarge { max_kib: usize },
    #[error("must have at most {max} entries")]
    TooMany { max: usize },
    #[error("is the name of another guardrail, too")]
    DuplicateName,
    #[error("must have `tool`, `actionKinds` or `arguments`")]
    NoCondition,
    #[error("must have `text`")]
    NoText,
    #[error("must have `result`")]
    NoResult,
    #[error("must be `block`, `warn` or `log`, because a guardrail on input cannot ask a person")]
    AskAboutInput,
    #[error("must be a JSON pointer such as `/command`, with at most {max} characters")]
    Pointer { max: usize },
}

impl CallCondition {
    pub const MAX_ARGUMENTS: usize = 10;

    fn check(&self) -> Vec<(String, GuardrailViolation)> {
        let mut found = Vec::new();
        if self.tool.is_none() && self.action_kinds.is_empty() && self.arguments.is_empty() {
            found.push((String::new(), GuardrailViolation::NoCondition));
        }
        let arguments = ArgumentCondition::check_all(&self.arguments, Self::MAX_ARGUMENTS);
        found.extend(arguments.map(|(path, violation)| (format!(".arguments{path}"), violation)));
        found
    }

    fn holds(&self, call: &ToolCall<'_>) -> bool {
        self.tool.as_ref().is_none_or(|tool| tool.matches(call.tool))
            && (self.action_kinds.is_empty()
                || call.effects.iter().any(|effect| self.action_kinds.contains(&effect.action_kind)))
            && self.arguments.iter().all(|argument| argument.holds(call.arguments))
    }
}

impl ArgumentCondition {
    pub const MAX_POINTER: usize = 200;

    /// Names every violation of a list of conditions, with its path below the list.
    pub(super) fn check_all(all: &[Self], max: usize) -> impl Iterator<Item = (String, GuardrailViolation)> {
        let too_many = (all.len() > max).then_some((String::new(), GuardrailViolation::TooMany { max }));
        let wrong = all.iter().enumerate().filter(|(_, condition)| !condition.has_pointer());
        let wrong = wrong
            .map(|(at, _)| (format!("[{at}].at"), GuardrailViolation::Pointer { max: Self::MAX_POINTER }));
        too_many.into_iter().chain(wrong)
    }

    /// Whether `at` is a JSON pointer or absent.
    fn has_pointer(&self) -> bool {
        self.at.as_ref().is_none_or(|at| at.starts_with('/') && at.chars().count() <= Self::MAX_POINTER)
    }

    /// Whether the condition holds for the arguments of a call, or for a result.
    pub(super) fn holds(&self, value: &Value) -> bool {
        let value = match &self.at {
            Some(at) => value.pointer(at),
            None => Some(value),
        };
        value.is_some_and(|value| self.matches_text_in(value))
    }

    fn matches_text_in(&self, argument: &Value) -> bool {
        let pattern = self.matches.as_str();
        match argument {
            Value::Null => false,
            Value::String(text) => glob_matches(pattern, text),
            Value::Bool(_) | Value::Number(_) => glob_matches(pattern, &argument.to_string()),
            Value::Array(items) => items.iter().any(|item| self.matches_text_in(item)),
            Value::Object(fields) => fields.values().any(|field| self.matches_text_in(field)),
        }
    }
}

impl ToolGuardrail {
    /// Names every violation with its path below the guardrail.
    pub(super) fn check(&self) -> Vec<(String, GuardrailViolation)> {
        let of_condition = self.condition.check().into_iter();
        of_condition.map(|(path, violation)| (format!(".condition{path}"), violation)).collect()
    }

    pub(super) fn trips(&self, call: &ToolCall<'_>) -> bool {
        self.condition.holds(call)
    }
}
