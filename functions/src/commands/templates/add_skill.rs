//! `POST /api/agents/templates/{id}/skills/{skillId}`: adds a default skill (S0 8.7
//! `AddTemplateDefaultSkillCommand`).

use axum::extract::State;
use pilothouse_api::templates::TemplateView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, NoBody, Problem};
use pilothouse_domain::skill::SkillError;
use pilothouse_domain::{AgentSkill, AgentTemplateId};

use crate::path::Skill;

pub const FUNCTION: HttpFunction = HttpFunction::new(
    "templates-add-skill",
    Verb::Post,
    "/api/agents/templates/{id}/skills/{skillId}",
    |verb| verb.route(add_skill),
)
.owner()
.summary("Add a default skill to a template")
.output::<TemplateView>(&[200]);

/// Responds with 200 and the template, with 404 when the owner has no such skill, or with 409 `skill-inactive` when the skill
/// is deactivated.
async fn add_skill(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<AgentTemplateId>,
    Skill(skill): Skill,
    _: NoBody,
) -> Result<CommandResponse, Problem> {
    let loaded =
        app.store.aggregate::<AgentSkill>(&command.owner, skill).await?.ok_or_else(Problem::no_skill)?;
    if !loaded.value.is_active() {
        return Err(SkillError::Inactive { skill_id: skill }.into());
    }
    super::change(&app, &command, id, |it, ctx| Ok(it.add_default_skill(skill, ctx)?)).await
}
