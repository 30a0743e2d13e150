//! `POST /api/agents/skills/{id}/tools`: adds a tool to a skill (S0 8.4 `AddToolDefinition`).

use axum::extract::State;
use pilothouse_domain::{AgentSkill, AgentSkillId};

use super::created;
use super::definitions::ToolInput;
use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::{Body, Id, Problem};

/// 201 with the skill; 409 `name-taken` when another tool of the skill has the name.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Id(id): Id<AgentSkillId>,
    body: Body<ToolInput>,
) -> Result<Answer, Problem> {
    let (call, input) = (call.with_body(&body.hash), body.input);
    let decide = |skill: &mut AgentSkill, cx: &mut pilothouse_domain::Occasion<'_>| {
        Ok(skill.add_tool_definition(input.clone().into(), cx)?)
    };
    app.change_owned(&call, id, decide, created).await
}
