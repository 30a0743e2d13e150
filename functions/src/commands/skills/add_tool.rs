//! `POST /api/agents/skills/{id}/tools`: adds a tool to a skill (S0 8.4 `AddToolDefinition`).

use axum::extract::State;
use pilothouse_api::skills::SkillView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Body, Id, Problem};
use pilothouse_domain::{AgentSkill, AgentSkillId};

use super::created;
use super::definitions::ToolInput;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("skills-add-tool", Verb::Post, "/api/agents/skills/{id}/tools", |verb| {
        verb.route(add_tool)
    })
    .owner()
    .summary("Add a tool to a skill")
    .input::<ToolInput>()
    .output::<SkillView>(&[201]);

/// Responds with 201 and the skill, or with 409 `name-taken` when another tool of the skill has the name.
async fn add_tool(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<AgentSkillId>,
    body: Body<ToolInput>,
) -> Result<CommandResponse, Problem> {
    let (command, input) = (command.with_body(&body.hash), body.input);
    let decide = |skill: &mut AgentSkill, ctx: &mut pilothouse_domain::DomainContext<'_>| {
        Ok(skill.add_tool_definition(input.clone().into(), ctx)?)
    };
    app.change_aggregate(&command, id, decide, created).await
}
