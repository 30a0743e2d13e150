//! `POST /api/agents/templates/{id}/skills/{skillId}`: enables a skill for its sessions (S0 8.7
//! `AddTemplateDefaultSkillCommand`).

use axum::extract::State;
use pilothouse_domain::{AgentSkillId, AgentTemplateId};

use super::InPath;
use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::{Id, NoBody, Problem};

/// 200 with the template; the skill must be the owner's, and active.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Id(id): Id<AgentTemplateId>,
    InPath(skill): InPath<AgentSkillId>,
    _: NoBody,
) -> Result<Answer, Problem> {
    app.check_skills(&call.owner, "skillId", &[skill]).await?;
    super::change(&app, &call, id, |it, cx| Ok(it.add_default_skill(skill, cx)?)).await
}
