//! `POST /api/agents/templates/{id}/tools`: adds a tool of an MCP server (S0 8.7 `AddTemplateMcpToolCommand`).

use axum::extract::State;
use http::StatusCode;
use pilothouse_api::templates::TemplateView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Body, Id, Problem};
use pilothouse_domain::{AgentTemplate, AgentTemplateId, DomainContext};

use super::shown;
use crate::commands::skills::definitions::ToolInput;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("templates-add-tool", Verb::Post, "/api/agents/templates/{id}/tools", |verb| {
        verb.route(add_tool)
    })
    .owner()
    .summary("Add an MCP tool to a template")
    .input::<ToolInput>()
    .output::<TemplateView>(&[201]);

/// Responds with 201 and the template, or with 409 `tool-exists` when another tool of the template has the name.
async fn add_tool(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<AgentTemplateId>,
    body: Body<ToolInput>,
) -> Result<CommandResponse, Problem> {
    let (command, input) = (command.with_body(&body.hash), body.input);
    let decide = |it: &mut AgentTemplate, ctx: &mut DomainContext<'_>| {
        Ok(it.add_custom_tool_definition(input.clone().into(), ctx)?)
    };
    app.change_aggregate(&command, id, decide, shown(StatusCode::CREATED)).await
}
