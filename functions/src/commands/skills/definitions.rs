//! Inputs for tools and subagents of skills and templates. They check all rules and report all violations.

use deserr::Deserr;
use pilothouse_api::input::{FieldError, Violations};
use pilothouse_domain::text::{ModelId, SkillInstructions, SubAgentName, ToolDescription, ToolName};
use pilothouse_domain::value::{InputSchema, McpToolDefinition, ServerUri, SkillSubAgentDefinition};
use schemars::JsonSchema;

use crate::fields::schema_text;

/// A tool of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolInput {
    /// The name of the tool. It must be unique in its skill, subagent or template.
    pub name: ToolName,
    /// A description of the tool for the agent.
    pub description: ToolDescription,
    /// The JSON Schema of the tool's input, as text.
    #[deserr(try_from(String) = schema_text -> FieldError)]
    pub input_schema: InputSchema,
    /// The absolute URI of the MCP server.
    pub server_uri: ServerUri,
}

/// A subagent that a skill defines.
#[derive(Debug, Clone, PartialEq, Eq, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubAgentInput {
    /// The name by which the agent starts the subagent. It must be unique in its skill.
    pub name: SubAgentName,
    /// The purpose of the subagent.
    pub description: ToolDescription,
    /// The model of the subagent.
    pub model_id: ModelId,
    /// Instructions for the subagent, added to its system prompt. Default: empty.
    #[deserr(default)]
    #[schemars(default)]
    pub instructions: SkillInstructions,
    /// Tools of the subagent. Default: none.
    #[deserr(default)]
    #[schemars(default)]
    pub tool_definitions: Vec<ToolInput>,
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
    use pilothouse_app::http::Problem;
    use pilothouse_app::http::body::read;

    use super::*;

    #[test]
    fn every_violation_of_a_tool_is_reported() {
        let json = r#"{ "name": "", "description": "", "inputSchema": "{\"type\":\"text\"}", "serverUri": "here", "x": 1 }"#;
        let Err(Problem::Invalid(all)) = read::<ToolInput>(json.as_bytes()) else { panic!("taken") };
        let mut fields: Vec<_> = all.iter().map(|v| v.field.as_str()).collect();
        fields.sort_unstable();
        assert_eq!(fields, ["description", "inputSchema", "name", "serverUri", "x"]);
        let schema = all.iter().find(|v| v.field == "inputSchema").unwrap();
        assert!(schema.message.contains("/type must be one or some of array"), "{}", schema.message);
    }

    #[test]
    fn name_and_description_of_a_tool_have_limits() {
        let tool = |name: usize, description: usize| {
            let json = serde_json::json!({
                "name": "x".repeat(name), "description": "x".repeat(description), "inputSchema": "{}",
                "serverUri": "https://tools.example.com/mcp",
            });
            read::<ToolInput>(json.to_string().as_bytes())
        };
        assert!(tool(100, 500).is_ok());
        let Err(Problem::Invalid(all)) = tool(101, 501) else { panic!("taken") };
        let mut fields: Vec<_> = all.iter().map(|v| v.field.as_str()).collect();
        fields.sort_unstable();
        assert_eq!(fields, ["description", "name"]);
    }

    #[test]
    fn valid_subagent_is_accepted() {
        let json = r#"{ "name": "runner", "description": "Runs", "modelId": "m" }"#;
        let taken: SkillSubAgentDefinition = read::<SubAgentInput>(json.as_bytes()).unwrap().into();
        assert!(taken.instructions.as_str().is_empty() && taken.tool_definitions.is_empty());
    }
}
