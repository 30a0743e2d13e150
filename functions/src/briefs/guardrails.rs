//! The guardrails of a brief as input (S2 `GuardrailPolicy`; decision 79).

use deserr::Deserr;
use pilothouse_api::input::Violations;
use pilothouse_domain::effect::{ActionKind, ToolGlob};
use pilothouse_domain::escalation::{
    ArgumentCondition, CallCondition, GuardrailAction, GuardrailPolicy, InputCondition, InputGuardrail,
    OutputCondition, OutputGuardrail, ToolGuardrail,
};
use pilothouse_domain::text::{ArgumentPattern, GuardrailDescription, GuardrailName};
use schemars::JsonSchema;

/// Rules that no approval overrides: at most 50 guardrails.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "they are the names of the specification")]
pub struct GuardrailPolicyInput {
    /// Guardrails for texts that are sent to the agent. Default: none.
    #[deserr(default)]
    #[schemars(default)]
    pub input_guardrails: Vec<InputGuardrailInput>,
    /// Guardrails for outputs of the agent. Default: none.
    #[deserr(default)]
    #[schemars(default)]
    pub output_guardrails: Vec<OutputGuardrailInput>,
    /// Guardrails for tool calls. Default: none.
    #[deserr(default)]
    #[schemars(default)]
    pub tool_guardrails: Vec<ToolGuardrailInput>,
}

/// A guardrail for texts that are sent to the agent: its objective, messages, instructions, answers, and reasons of decisions.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct InputGuardrailInput {
    /// The name, unique in the brief. The decision log has it.
    pub name: GuardrailName,
    /// Why the guardrail exists. The sender of a refused text reads it.
    #[deserr(default)]
    pub description: Option<GuardrailDescription>,
    /// The action on a text that fulfils the condition: `block`, `warn` or `log`.
    pub action: GuardrailAction,
    /// To which texts it applies.
    pub condition: InputConditionInput,
}

/// A condition on a text.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct InputConditionInput {
    /// 1 to 10 patterns of the whole text: `*` matches any characters, `?` one. All of them have to match.
    pub text: Vec<ArgumentPattern>,
}

/// A guardrail for outputs of the agent.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutputGuardrailInput {
    /// The name, unique in the brief. The decision log has it.
    pub name: GuardrailName,
    /// Why the guardrail exists. The agent reads it if its output is blocked, but not the name.
    #[deserr(default)]
    pub description: Option<GuardrailDescription>,
    /// The action on an output that fulfils the condition.
    pub action: GuardrailAction,
    /// To which outputs it applies.
    pub condition: OutputConditionInput,
}

/// A condition on the result of an output. It does not hold for an output without a result.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutputConditionInput {
    /// 1 to 10 conditions on the result, whose JSON pointers begin at the result. All of them have to hold.
    pub result: Vec<ArgumentConditionInput>,
}

/// A guardrail for tool calls.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolGuardrailInput {
    /// The name, unique in the brief. The decision log has it.
    pub name: GuardrailName,
    /// Why the guardrail exists.
    #[deserr(default)]
    pub description: Option<GuardrailDescription>,
    /// The action on a call that fulfils the condition.
    pub action: GuardrailAction,
    /// To which calls it applies: at least one part.
    pub condition: CallConditionInput,
}

/// Fulfilled if all of its parts are.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct CallConditionInput {
    /// A pattern of tool names: `*` matches any characters, `?` one.
    #[deserr(default)]
    pub tool: Option<ToolGlob>,
    /// What the call does: one of these at least. Unlike `arguments`, this does not depend on how a command is written.
    #[deserr(default)]
    #[schemars(default)]
    pub action_kinds: Vec<ActionKind>,
    /// Conditions on the arguments: at most 10. All of them have to hold.
    #[deserr(default)]
    #[schemars(default)]
    pub arguments: Vec<ArgumentConditionInput>,
}

/// A condition on an argument of a tool call, or on a value of a result.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct ArgumentConditionInput {
    /// A JSON pointer to the value, such as `/command`. Default: any text in the arguments or the result.
    #[deserr(default)]
    pub at: Option<String>,
    /// A pattern of the whole text: `*` matches any characters, `?` one.
    pub matches: ArgumentPattern,
}

impl From<InputGuardrailInput> for InputGuardrail {
    fn from(input: InputGuardrailInput) -> Self {
        let InputGuardrailInput { name, description, action, condition } = input;
        Self { name, description, action, condition: InputCondition { text: condition.text } }
    }
}

impl From<OutputGuardrailInput> for OutputGuardrail {
    fn from(input: OutputGuardrailInput) -> Self {
        let OutputGuardrailInput { name, description, action, condition } = input;
        let result = condition.result.into_iter().map(ArgumentCondition::from).collect();
        Self { name, description, action, condition: OutputCondition { result } }
    }
}

impl From<ToolGuardrailInput> for ToolGuardrail {
    fn from(input: ToolGuardrailInput) -> Self {
        let ToolGuardrailInput { name, description, action, condition } = input;
        let CallConditionInput { tool, action_kinds, arguments } = condition;
        let condition = CallCondition {
            tool,
            action_kinds: action_kinds.into_iter().collect(),
            arguments: arguments.into_iter().map(ArgumentCondition::from).collect(),
        };
        Self { name, description, action, condition }
    }
}

impl From<ArgumentConditionInput> for ArgumentCondition {
    fn from(ArgumentConditionInput { at, matches }: ArgumentConditionInput) -> Self {
        Self { at, matches }
    }
}

impl From<GuardrailPolicyInput> for GuardrailPolicy {
    fn from(input: GuardrailPolicyInput) -> Self {
        let GuardrailPolicyInput { input_guardrails, output_guardrails, tool_guardrails } = input;
        Self {
            input_guardrails: input_guardrails.into_iter().map(InputGuardrail::from).collect(),
            output_guardrails: output_guardrails.into_iter().map(OutputGuardrail::from).collect(),
            tool_guardrails: tool_guardrails.into_iter().map(ToolGuardrail::from).collect(),
        }
    }
}
