//! `DELETE /api/agents/templates/{id}/skills/{skillId}`: removes a default skill (S0 8.7
//! `RemoveTemplateDefaultSkillCommand`).

use axum::extract::State;
use pilothouse_api::templates::TemplateView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, Problem};
use pilothouse_domain::AgentTemplateId;

use crate::path::Skill;

pub const FUNCTION: HttpFunction = HttpFunction::new(
    "templates-remove-skill",
    Verb::Delete,
    "/api/agents/templates/{id}/skills/{skillId}",
    |verb| verb.route(remove_skill),
)
.owner()
.summary("Remove a default skill from a template")
.output::<TemplateView>(&[200]);

/// Responds with 200 and the template.
async fn remove_skill(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<AgentTemplateId>,
    Skill(skill): Skill,
) -> Result<CommandResponse, Problem> {
    super::change(&app, &command, id, |it, ctx| Ok(it.remove_default_skill(skill, ctx)?)).await
}
