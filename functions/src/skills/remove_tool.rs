//! `DELETE /api/agents/skills/{id}/tools/{name}`: takes a tool out of a skill (S0 8.4 `RemoveToolDefinition`).

use axum::extract::State;
use pilothouse_domain::{AgentSkill, AgentSkillId};

use super::{Name, answer};
use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::{Id, Problem};

/// 200 with the skill.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Id(id): Id<AgentSkillId>,
    Name(name): Name,
) -> Result<Answer, Problem> {
    let decide = |skill: &mut AgentSkill, cx: &mut pilothouse_domain::Occasion<'_>| {
        Ok(skill.remove_tool_definition(&name, cx)?)
    };
    app.change_owned(&call, id, decide, answer).await
}
