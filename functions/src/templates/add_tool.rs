//! `POST /api/agents/templates/{id}/tools`: adds a tool of an MCP server (S0 8.7 `AddTemplateMcpToolCommand`).

use axum::extract::State;
use http::StatusCode;
use pilothouse_domain::{AgentTemplate, AgentTemplateId, Occasion};

use super::shown;
use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::{Body, Id, Problem};
use crate::skills::definitions::ToolInput;

/// 201 with the template; 409 `tool-exists` when another tool of the template has the name.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Id(id): Id<AgentTemplateId>,
    body: Body<ToolInput>,
) -> Result<Answer, Problem> {
    let (call, input) = (call.with_body(&body.hash), body.input);
    let decide = |it: &mut AgentTemplate, cx: &mut Occasion<'_>| {
        Ok(it.add_custom_tool_definition(input.clone().into(), cx)?)
    };
    app.change_owned(&call, id, decide, shown(StatusCode::CREATED)).await
}
