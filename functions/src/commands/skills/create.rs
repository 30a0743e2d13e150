//! `POST /api/agents/skills`: creates a skill (S0 8.7 `CreateAgentSkillCommand`).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_api::input::Violations;
use pilothouse_api::skills::SkillView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::Problem;
use pilothouse_app::http::body::Body;
use pilothouse_domain::skill::NewSkill;
use pilothouse_domain::text::{SkillDescription, SkillInstructions, SkillName};
use pilothouse_domain::{AgentSkill, AgentSkillId};
use schemars::JsonSchema;

use super::created;
use super::definitions::{SubAgentInput, ToolInput};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("skills-create", Verb::Post, "/api/agents/skills", |verb| verb.route(create_skill))
        .owner()
        .summary("Create a skill")
        .input::<CreateSkill>()
        .output::<SkillView>(&[201]);

/// A new skill.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateSkill {
    /// The name of the skill. It must be unique among the owner's skills.
    pub name: SkillName,
    /// The purpose of the skill.
    pub description: SkillDescription,
    /// Instructions for the agent. Default: empty.
    #[deserr(default)]
    #[schemars(default)]
    pub instructions: SkillInstructions,
    /// Tools of the skill: at most 50. Default: none.
    #[deserr(default)]
    #[schemars(default)]
    pub tool_definitions: Vec<ToolInput>,
    /// Subagents of the skill: at most 20. Default: none.
    #[deserr(default)]
    #[schemars(default)]
    pub sub_agent_definitions: Vec<SubAgentInput>,
}

/// Responds with 201 and the skill, or with 409 `name-taken` when another skill has the name.
async fn create_skill(
    State(app): State<App>,
    command: CommandContext,
    body: Body<CreateSkill>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let input = body.input;
    let make = |ctx: &mut pilothouse_domain::DomainContext<'_>| {
        let new = NewSkill {
            id: AgentSkillId::new(ctx.uuid()),
            owner_id: command.owner.clone(),
            name: input.name.clone(),
            description: input.description.clone(),
            instructions: input.instructions.clone(),
            tool_definitions: input.tool_definitions.iter().cloned().map(Into::into).collect(),
            sub_agent_definitions: input.sub_agent_definitions.iter().cloned().map(Into::into).collect(),
        };
        Ok(AgentSkill::create(new, ctx)?)
    };
    app.create_aggregate(&command, make, created).await
}
