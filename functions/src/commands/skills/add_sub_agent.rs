//! `POST /api/agents/skills/{id}/sub-agents`: adds a subagent to a skill (S0 8.4 `AddSubAgentDefinition`).

use axum::extract::State;
use pilothouse_api::skills::SkillView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Body, Id, Problem};
use pilothouse_domain::{AgentSkill, AgentSkillId};

use super::created;
use super::definitions::SubAgentInput;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("skills-add-sub-agent", Verb::Post, "/api/agents/skills/{id}/sub-agents", |verb| {
        verb.route(add_sub_agent)
    })
    .owner()
    .summary("Add a subagent to a skill")
    .input::<SubAgentInput>()
    .output::<SkillView>(&[201]);

/// Responds with 201 and the skill, or with 409 `name-taken` when another subagent of the skill has the name.
async fn add_sub_agent(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<AgentSkillId>,
    body: Body<SubAgentInput>,
) -> Result<CommandResponse, Problem> {
    let (command, input) = (command.with_body(&body.hash), body.input);
    let decide = |skill: &mut AgentSkill, ctx: &mut pilothouse_domain::DomainContext<'_>| {
        Ok(skill.add_sub_agent_definition(input.clone().into(), ctx)?)
    };
    app.change_aggregate(&command, id, decide, created).await
}
