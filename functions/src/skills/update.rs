//! `PUT /api/agents/skills/{id}`: changes name, description and instructions (S0 8.7 `UpdateAgentSkillCommand`,
//! `UpdateAgentSkillInstructionsCommand`).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_domain::text::{InvalidText, SkillDescription, SkillInstructions, SkillName};
use pilothouse_domain::{AgentSkill, AgentSkillId, Events, Occasion};
use schemars::JsonSchema;

use super::answer;
use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::input::{Body, Violations, maybe};
use crate::edge::{Id, Problem};

/// What is to change; what is not given stays.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateSkill {
    /// Its name; no other of the owner's skills may have it.
    #[deserr(default, try_from(Option<String>) = maybe -> InvalidText)]
    pub name: Option<SkillName>,
    /// What it is for.
    #[deserr(default, try_from(Option<String>) = maybe -> InvalidText)]
    pub description: Option<SkillDescription>,
    /// What it tells the agent. The version stays: only a consolidation moves it.
    #[deserr(default, try_from(Option<String>) = maybe -> InvalidText)]
    pub instructions: Option<SkillInstructions>,
}

/// 200 with the skill; 409 `consolidation-under-way` for instructions that a consolidation would overwrite. Sessions that
/// have the skill take the change with their next reload or run.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Id(id): Id<AgentSkillId>,
    body: Body<UpdateSkill>,
) -> Result<Answer, Problem> {
    let (call, input) = (call.with_body(&body.hash), body.input);
    let decide = |skill: &mut AgentSkill, cx: &mut Occasion<'_>| -> Result<Events, Problem> {
        let mut events = skill.update(input.name.clone(), input.description.clone(), cx)?;
        if let Some(instructions) = &input.instructions {
            events.extend(skill.update_instructions(instructions.clone(), false, cx)?);
        }
        Ok(events)
    };
    app.change_owned(&call, id, decide, answer).await
}
