//! `POST /api/agents/templates/{id}/skills/{skillId}`: enables a skill for its sessions (S0 8.7
//! `AddTemplateDefaultSkillCommand`).

use axum::extract::State;
use pilothouse_domain::skill::SkillError;
use pilothouse_domain::{AgentSkill, AgentTemplateId};

use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::{Id, NoBody, Problem};
use crate::skills::{Skill, no_skill};

/// 200 with the template; 404 and 409 `skill-inactive` when the skill is not the owner's, or deactivated.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Id(id): Id<AgentTemplateId>,
    Skill(skill): Skill,
    _: NoBody,
) -> Result<Answer, Problem> {
    let loaded = app.store.owned::<AgentSkill>(&call.owner, skill).await?.ok_or_else(no_skill)?;
    if !loaded.value.is_active() {
        return Err(SkillError::Inactive { skill_id: skill }.into());
    }
    super::change(&app, &call, id, |it, cx| Ok(it.add_default_skill(skill, cx)?)).await
}
