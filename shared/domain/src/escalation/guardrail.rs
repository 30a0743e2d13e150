//! Guardrails of a brief: rules on tool calls that no approval overrides (S2 `GuardrailSpec`; decision 79).

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ToolCall;
use crate::effect::{ActionKind, ToolGlob, glob_matches};
use crate::text::{ArgumentPattern, GuardrailDescription, GuardrailName};

/// The guardrails of an agent. Conditions on the input or the output of the agent are not supported.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GuardrailPolicy {
    /// Guardrails for tool calls.
    #[serde(default)]
    pub tool_guardrails: Vec<ToolGuardrail>,
}

/// A guardrail for tool calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolGuardrail {
    /// The name, unique in the brief. The decision log has it.
    pub name: GuardrailName,
    /// Why the guardrail exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<GuardrailDescription>,
    /// What happens to a call that fulfils the condition.
    pub action: GuardrailAction,
    /// To which calls it applies.
    pub condition: CallCondition,
}

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GuardrailAction {
    /// The call is denied.
    Block,
    /// A person decides about each such call.
    Ask,
    /// The call is judged by the other rules, and the decision log names the guardrail.
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

/// A condition on an argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArgumentCondition {
    /// A JSON pointer to the argument, such as `/command`. By default, any text in the arguments counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// A pattern of the whole text: `*` matches any characters, `?` one.
    pub matches: ArgumentPattern,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuardrailViolation {
    #[error("must have at most {max} entries")]
    TooMany { max: usize },
    #[error("is the name of another guardrail, too")]
    DuplicateName,
    #[error("must have `tool`, `actionKinds` or `arguments`")]
    NoCondition,
    #[error("must be a JSON pointer such as `/command`, with at most {max} characters")]
    Pointer { max: usize },
}

impl GuardrailPolicy {
    pub const MAX_GUARDRAILS: usize = 50;

    /// Names every violation with its path.
    pub fn check(&self) -> Vec<(String, GuardrailViolation)> {
        const ROOT: &str = "toolGuardrails";
        let mut found = Vec::new();
        if self.tool_guardrails.len() > Self::MAX_GUARDRAILS {
            let too_many = GuardrailViolation::TooMany { max: Self::MAX_GUARDRAILS };
            return vec![(ROOT.to_owned(), too_many)];
        }
        let mut names = BTreeSet::new();
        for (at, guardrail) in self.tool_guardrails.iter().enumerate() {
            if !names.insert(guardrail.name.as_str()) {
                found.push((format!("{ROOT}[{at}].name"), GuardrailViolation::DuplicateName));
            }
            let within = |(path, violation)| (format!("{ROOT}[{at}].condition{path}"), violation);
            found.extend(guardrail.condition.check().into_iter().map(within));
        }
        found
    }
}

impl CallCondition {
    pub const MAX_ARGUMENTS: usize = 10;

    fn check(&self) -> Vec<(String, GuardrailViolation)> {
        let mut found = Vec::new();
        if self.tool.is_none() && self.action_kinds.is_empty() && self.arguments.is_empty() {
            found.push((String::new(), GuardrailViolation::NoCondition));
        }
        if self.arguments.len() > Self::MAX_ARGUMENTS {
            let too_many = GuardrailViolation::TooMany { max: Self::MAX_ARGUMENTS };
            found.push((".arguments".to_owned(), too_many));
        }
        for (at, argument) in self.arguments.iter().enumerate() {
            if argument.at.as_ref().is_some_and(|at| !ArgumentCondition::is_pointer(at)) {
                let wrong = GuardrailViolation::Pointer { max: ArgumentCondition::MAX_POINTER };
                found.push((format!(".arguments[{at}].at"), wrong));
            }
        }
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

    fn is_pointer(text: &str) -> bool {
        text.starts_with('/') && text.chars().count() <= Self::MAX_POINTER
    }

    fn holds(&self, arguments: &Value) -> bool {
        let argument = match &self.at {
            Some(at) => arguments.pointer(at),
            None => Some(arguments),
        };
        argument.is_some_and(|argument| self.matches_text_in(argument))
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
    pub(super) fn trips(&self, call: &ToolCall<'_>) -> bool {
        self.condition.holds(call)
    }
}
