//! `PUT /api/agents/skills/{id}`: updates the name, description or instructions (S0 8.7 `UpdateAgentSkillCommand`,
//! `UpdateAgentSkillInstructionsCommand`).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_api::input::Violations;
use pilothouse_api::skills::SkillView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{Id, Problem};
use pilothouse_domain::text::{SkillDescription, SkillInstructions, SkillName};
use pilothouse_domain::{AgentSkill, AgentSkillId, DomainContext, SkillEvent};
use schemars::JsonSchema;

use super::skill_response;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("skills-update", Verb::Put, "/api/agents/skills/{id}", |verb| verb.route(update_skill))
        .owner()
        .summary("Update the name, description or instructions of a skill")
        .input::<UpdateSkill>()
        .output::<SkillView>(&[200]);

/// The changes to a skill. Omitted fields keep their values.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateSkill {
    /// The name of the skill. It must be unique among the owner's skills.
    #[deserr(default)]
    pub name: Option<SkillName>,
    /// The purpose of the skill.
    #[deserr(default)]
    pub description: Option<SkillDescription>,
    /// Instructions for the agent. They keep their version number, which only a consolidation increments.
    #[deserr(default)]
    pub instructions: Option<SkillInstructions>,
}

/// Responds with 200 and the skill, or with 409 `consolidation-under-way` when a consolidation would overwrite the new
/// instructions. Sessions with the skill apply the change with their next reload or run.
async fn update_skill(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<AgentSkillId>,
    body: Body<UpdateSkill>,
) -> Result<CommandResponse, Problem> {
    let (command, input) = (command.with_body(&body.hash), body.input);
    let decide = |skill: &mut AgentSkill, ctx: &mut DomainContext<'_>| -> Result<Vec<SkillEvent>, Problem> {
        let mut events = skill.update(input.name.clone(), input.description.clone(), ctx)?;
        if let Some(instructions) = &input.instructions {
            events.extend(skill.update_instructions(instructions.clone(), false, ctx)?);
        }
        Ok(events)
    };
    app.change_aggregate(&command, id, decide, skill_response).await
}
