//! `POST /api/agents/skills/{id}/activate`: lets sessions be given a skill again (S0 8.7 `ActivateAgentSkillCommand`).

use axum::extract::State;
use pilothouse_domain::{AgentSkill, AgentSkillId};

use super::answer;
use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::{Id, NoBody, Problem};

/// 200 with the skill, also when it was so before.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Id(id): Id<AgentSkillId>,
    _: NoBody,
) -> Result<Answer, Problem> {
    app.change_owned(&call, id, |skill: &mut AgentSkill, cx| Ok(skill.activate(cx)), answer).await
}
