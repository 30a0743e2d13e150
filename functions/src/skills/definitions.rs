//! Tools and subagents as inputs, for skills and templates: every rule of theirs is checked here, and every violation named.

use deserr::Deserr;
use pilothouse_domain::text::{
    InvalidText, ModelId, SkillInstructions, SubAgentName, ToolDescription, ToolName,
};
use pilothouse_domain::value::{
    InputSchema, InvalidServerUri, McpToolDefinition, ServerUri, SkillSubAgentDefinition,
};
use schemars::JsonSchema;

use crate::edge::input::{Said, Violations};
use crate::edge::json_schema;

/// A tool of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolInput {
    /// Its name, unique where it stands.
    #[deserr(try_from(String) = ToolName::try_from -> InvalidText)]
    pub name: ToolName,
    /// What it does, for the agent.
    #[deserr(try_from(String) = ToolDescription::try_from -> InvalidText)]
    pub description: ToolDescription,
    /// What it takes: a JSON Schema as text.
    #[deserr(try_from(String) = schema_text -> Said)]
    pub input_schema: InputSchema,
    /// Where its server is: an absolute URI.
    #[deserr(try_from(String) = ServerUri::try_from -> InvalidServerUri)]
    pub server_uri: ServerUri,
}

/// A subagent that a skill brings along.
#[derive(Debug, Clone, PartialEq, Eq, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubAgentInput {
    /// What the agent calls it by, unique within its skill.
    #[deserr(try_from(String) = SubAgentName::try_from -> InvalidText)]
    pub name: SubAgentName,
    /// What it is for.
    #[deserr(try_from(String) = ToolDescription::try_from -> InvalidText)]
    pub description: ToolDescription,
    /// Its model.
    #[deserr(try_from(String) = ModelId::try_from -> InvalidText)]
    pub model_id: ModelId,
    /// What its system prompt adds. Default: nothing.
    #[deserr(default = nothing(), try_from(String) = SkillInstructions::try_from -> InvalidText)]
    #[schemars(default = "nothing")]
    pub instructions: SkillInstructions,
    /// Its tools. Default: none.
    #[deserr(default)]
    #[schemars(default)]
    pub tool_definitions: Vec<ToolInput>,
}

/// No instructions.
pub(super) fn nothing() -> SkillInstructions {
    SkillInstructions::default()
}

/// The text of a JSON Schema that keeps the meta-schema.
fn schema_text(text: String) -> Result<InputSchema, Said> {
    let schema = InputSchema::parse(text).map_err(|error| Said(error.to_string()))?;
    let json = serde_json::from_str(schema.as_str()).map_err(|error| Said(error.to_string()))?;
    match json_schema::violations(&json) {
        wrong if wrong.is_empty() => Ok(schema),
        wrong => Err(Said(format!("is not a JSON Schema: {}", wrong.join("; ")))),
    }
}

impl From<ToolInput> for McpToolDefinition {
    fn from(input: ToolInput) -> Self {
        let ToolInput { name, description, input_schema, server_uri } = input;
        Self { name, description, input_schema, server_uri }
    }
}

impl From<SubAgentInput> for SkillSubAgentDefinition {
    fn from(input: SubAgentInput) -> Self {
        let SubAgentInput { name, description, model_id, instructions, tool_definitions } = input;
        let tool_definitions = tool_definitions.into_iter().map(Into::into).collect();
        Self { name, description, model_id, instructions, tool_definitions }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::edge::Problem;
    use crate::edge::input::read;

    #[test]
    fn every_violation_of_a_tool_is_named() {
        let json = r#"{ "name": "", "description": "", "inputSchema": "{\"type\":\"text\"}", "serverUri": "here", "x": 1 }"#;
        let Err(Problem::Invalid(all)) = read::<ToolInput>(json.as_bytes()) else { panic!("taken") };
        let mut fields: Vec<_> = all.iter().map(|v| v.field.as_str()).collect();
        fields.sort_unstable();
        assert_eq!(fields, ["description", "inputSchema", "name", "serverUri", "x"]);
        let schema = all.iter().find(|v| v.field == "inputSchema").unwrap();
        assert!(schema.message.contains("/type must be one or some of array"), "{}", schema.message);
    }

    #[test]
    fn a_fitting_subagent_is_taken() {
        let json = r#"{ "name": "runner", "description": "Runs", "modelId": "m" }"#;
        let taken: SkillSubAgentDefinition = read::<SubAgentInput>(json.as_bytes()).unwrap().into();
        assert!(taken.instructions.as_str().is_empty() && taken.tool_definitions.is_empty());
    }
}
