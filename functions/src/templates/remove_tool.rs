//! `DELETE /api/agents/templates/{id}/tools/{toolName}`: removes a tool (S0 8.7 `RemoveTemplateMcpToolCommand`).

use axum::extract::State;
use pilothouse_domain::AgentTemplateId;

use super::ToolInPath;
use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::{Id, Problem};

/// 200 with the template.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Id(id): Id<AgentTemplateId>,
    ToolInPath(tool): ToolInPath,
) -> Result<Answer, Problem> {
    super::change(&app, &call, id, |it, cx| Ok(it.remove_custom_tool_definition(&tool, cx)?)).await
}
