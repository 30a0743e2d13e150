//! `DELETE /api/agents/templates/{id}/skills/{skillId}`: enables a skill for its sessions no more (S0 8.7
//! `RemoveTemplateDefaultSkillCommand`).

use axum::extract::State;
use pilothouse_domain::AgentTemplateId;

use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::{Id, Problem};
use crate::skills::Skill;

/// 200 with the template.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Id(id): Id<AgentTemplateId>,
    Skill(skill): Skill,
) -> Result<Answer, Problem> {
    super::change(&app, &call, id, |it, cx| Ok(it.remove_default_skill(skill, cx)?)).await
}
