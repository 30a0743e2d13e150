//! The guardrails of a brief: rules that no approval overrides, on tool calls, and on the input and the output of an agent (decision 79).

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::content_guardrail::{InputGuardrail, OutputGuardrail};
use super::guardrail::{GuardrailViolation, ToolGuardrail};

/// The guardrails of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GuardrailPolicy {
    /// Guardrails for texts that are sent to the agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub input_guardrails: Vec<InputGuardrail>,
    /// Guardrails for outputs of the agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output_guardrails: Vec<OutputGuardrail>,
    /// Guardrails for tool calls.
    #[serde(default)]
    pub tool_guardrails: Vec<ToolGuardrail>,
}

impl GuardrailPolicy {
    pub const MAX_GUARDRAILS: usize = 50;
    /// Most bytes of the policy as JSON. Each output, text and tool call is compared with its patterns, and an output is stored with the
    /// descriptions of the guardrails that trip on it.
    pub const MAX_BYTES: usize = 32 * 1024;

    /// Names every violation with its path below the policy.
    pub fn check(&self) -> Vec<(String, GuardrailViolation)> {
        let Self { input_guardrails, output_guardrails, tool_guardrails } = self;
        if input_guardrails.len() + output_guardrails.len() + tool_guardrails.len() > Self::MAX_GUARDRAILS {
            let too_many = GuardrailViolation::TooManyGuardrails { max: Self::MAX_GUARDRAILS };
            return vec![(String::new(), too_many)];
        }
        if serde_json::to_vec(self).map_or(usize::MAX, |json| json.len()) > Self::MAX_BYTES {
            return vec![(String::new(), GuardrailViolation::TooLarge { max_kib: Self::MAX_BYTES / 1024 })];
        }
        let input = input_guardrails.iter().map(|it| (&it.name, it.check())).enumerate();
        let output = output_guardrails.iter().map(|it| (&it.name, it.check())).enumerate();
        let tool = tool_guardrails.iter().map(|it| (&it.name, it.check())).enumerate();
        let input = input.map(|checked| ("inputGuardrails", checked));
        let output = output.map(|checked| ("outputGuardrails", checked));
        let checked = input.chain(output).chain(tool.map(|checked| ("toolGuardrails", checked)));
        let (mut found, mut names) = (Vec::new(), BTreeSet::new());
        for (root, (at, (name, violations))) in checked {
            if !names.insert(name.as_str()) {
                found.push((format!("{root}[{at}].name"), GuardrailViolation::DuplicateName));
            }
            let within = |(path, violation)| (format!("{root}[{at}]{path}"), violation);
            found.extend(violations.into_iter().map(within));
        }
        found
    }
}
