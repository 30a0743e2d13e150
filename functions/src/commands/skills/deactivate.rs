//! `POST /api/agents/skills/{id}/deactivate`: deactivates a skill (S0 8.7 `DeactivateAgentSkillCommand`).

use axum::extract::State;
use pilothouse_api::skills::SkillView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, NoBody, Problem};
use pilothouse_domain::{AgentSkill, AgentSkillId};

use super::skill_response;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("skills-deactivate", Verb::Post, "/api/agents/skills/{id}/deactivate", |verb| {
        verb.route(deactivate_skill)
    })
    .owner()
    .summary("Deactivate a skill")
    .output::<SkillView>(&[200]);

/// Responds with 200 and the skill, also when it was inactive before.
async fn deactivate_skill(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<AgentSkillId>,
    _: NoBody,
) -> Result<CommandResponse, Problem> {
    app.change_aggregate(
        &command,
        id,
        |skill: &mut AgentSkill, ctx| Ok(skill.deactivate(ctx)),
        skill_response,
    )
    .await
}
