//! `DELETE /api/agents/templates/{id}/skills/{skillId}`: enables a skill for its sessions no more (S0 8.7
//! `RemoveTemplateDefaultSkillCommand`).

use axum::extract::State;
use pilothouse_domain::{AgentSkillId, AgentTemplateId};

use super::InPath;
use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::{Id, Problem};

/// 200 with the template.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Id(id): Id<AgentTemplateId>,
    InPath(skill): InPath<AgentSkillId>,
) -> Result<Answer, Problem> {
    super::change(&app, &call, id, |it, cx| Ok(it.remove_default_skill(skill, cx)?)).await
}
