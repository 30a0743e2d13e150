//! `POST /api/agents/skills/{id}/sub-agents`: adds a subagent to a skill (S0 8.4 `AddSubAgentDefinition`).

use axum::extract::State;
use pilothouse_domain::{AgentSkill, AgentSkillId};

use super::created;
use super::definitions::SubAgentInput;
use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::{Body, Id, Problem};

/// 201 with the skill; 409 `name-taken` when another subagent of the skill has the name.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Id(id): Id<AgentSkillId>,
    body: Body<SubAgentInput>,
) -> Result<Answer, Problem> {
    let (call, input) = (call.with_body(&body.hash), body.input);
    let decide = |skill: &mut AgentSkill, cx: &mut pilothouse_domain::Occasion<'_>| {
        Ok(skill.add_sub_agent_definition(input.clone().into(), cx)?)
    };
    app.change_owned(&call, id, decide, created).await
}
