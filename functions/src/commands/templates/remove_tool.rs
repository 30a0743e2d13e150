//! `DELETE /api/agents/templates/{id}/tools/{toolName}`: removes a tool (S0 8.7 `RemoveTemplateMcpToolCommand`).

use axum::extract::State;
use pilothouse_api::templates::TemplateView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, Problem};
use pilothouse_domain::AgentTemplateId;

use crate::path::ToolName;

pub const FUNCTION: HttpFunction = HttpFunction::new(
    "templates-remove-tool",
    Verb::Delete,
    "/api/agents/templates/{id}/tools/{toolName}",
    |verb| verb.route(remove_tool),
)
.owner()
.summary("Remove an MCP tool from a template")
.output::<TemplateView>(&[200]);

/// Responds with 200 and the template.
async fn remove_tool(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<AgentTemplateId>,
    ToolName(tool): ToolName,
) -> Result<CommandResponse, Problem> {
    super::change(&app, &command, id, |it, ctx| Ok(it.remove_custom_tool_definition(&tool, ctx)?)).await
}
