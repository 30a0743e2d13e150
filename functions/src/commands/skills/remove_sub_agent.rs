//! `DELETE /api/agents/skills/{id}/sub-agents/{name}`: removes a subagent from a skill (S0 8.4 `RemoveSubAgentDefinition`).

use axum::extract::State;
use pilothouse_api::skills::SkillView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, Problem};
use pilothouse_domain::{AgentSkill, AgentSkillId};

use super::skill_response;
use crate::path::Name;

pub const FUNCTION: HttpFunction = HttpFunction::new(
    "skills-remove-sub-agent",
    Verb::Delete,
    "/api/agents/skills/{id}/sub-agents/{name}",
    |verb| verb.route(remove_sub_agent),
)
.owner()
.summary("Remove a subagent from a skill")
.output::<SkillView>(&[200]);

/// Responds with 200 and the skill.
async fn remove_sub_agent(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<AgentSkillId>,
    Name(name): Name,
) -> Result<CommandResponse, Problem> {
    let decide = |skill: &mut AgentSkill, ctx: &mut pilothouse_domain::DomainContext<'_>| {
        Ok(skill.remove_sub_agent_definition(&name, ctx)?)
    };
    app.change_aggregate(&command, id, decide, skill_response).await
}
