//! `POST /api/agents/skills`: creates a skill (S0 8.7 `CreateAgentSkillCommand`).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_domain::skill::NewSkill;
use pilothouse_domain::text::{InvalidText, SkillDescription, SkillInstructions, SkillName};
use pilothouse_domain::{AgentSkill, AgentSkillId};
use schemars::JsonSchema;

use super::created;
use super::definitions::{SubAgentInput, ToolInput, nothing};
use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::Problem;
use crate::edge::input::{Body, Violations};

/// A new skill.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateSkill {
    /// Its name; no other of the owner's skills may have it.
    #[deserr(try_from(String) = SkillName::try_from -> InvalidText)]
    pub name: SkillName,
    /// What it is for.
    #[deserr(try_from(String) = SkillDescription::try_from -> InvalidText)]
    pub description: SkillDescription,
    /// What it tells the agent. Default: nothing yet.
    #[deserr(default = nothing(), try_from(String) = SkillInstructions::try_from -> InvalidText)]
    #[schemars(default = "nothing")]
    pub instructions: SkillInstructions,
    /// Its tools, at most 50. Default: none.
    #[deserr(default)]
    #[schemars(default)]
    pub tool_definitions: Vec<ToolInput>,
    /// Its subagents, at most 20. Default: none.
    #[deserr(default)]
    #[schemars(default)]
    pub sub_agent_definitions: Vec<SubAgentInput>,
}

/// 201 with the skill; 409 `name-taken` when another one has its name.
pub async fn handle(State(app): State<App>, call: Call, body: Body<CreateSkill>) -> Result<Answer, Problem> {
    let call = call.with_body(&body.hash);
    let input = body.input;
    let make = |cx: &mut pilothouse_domain::Occasion<'_>| {
        let new = NewSkill {
            id: AgentSkillId::new(cx.uuid()),
            owner_id: call.owner.clone(),
            name: input.name.clone(),
            description: input.description.clone(),
            instructions: input.instructions.clone(),
            tool_definitions: input.tool_definitions.iter().cloned().map(Into::into).collect(),
            sub_agent_definitions: input.sub_agent_definitions.iter().cloned().map(Into::into).collect(),
        };
        Ok(AgentSkill::create(new, cx)?)
    };
    app.create_owned(&call, make, created).await
}
