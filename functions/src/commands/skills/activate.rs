//! `POST /api/agents/skills/{id}/activate`: activates a skill (S0 8.7 `ActivateAgentSkillCommand`).

use axum::extract::State;
use pilothouse_api::skills::SkillView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, NoBody, Problem};
use pilothouse_domain::{AgentSkill, AgentSkillId};

use super::skill_response;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("skills-activate", Verb::Post, "/api/agents/skills/{id}/activate", |verb| {
        verb.route(activate_skill)
    })
    .owner()
    .summary("Activate a skill")
    .output::<SkillView>(&[200]);

/// Responds with 200 and the skill, also when it was active before.
async fn activate_skill(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<AgentSkillId>,
    _: NoBody,
) -> Result<CommandResponse, Problem> {
    app.change_aggregate(&command, id, |skill: &mut AgentSkill, ctx| Ok(skill.activate(ctx)), skill_response)
        .await
}
