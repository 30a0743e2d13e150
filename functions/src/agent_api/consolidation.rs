//! `POST /api/agent/skills/{skillId}/consolidation`: submits the skill's new instructions from a consolidation session
//! (decision 52).

use axum::extract::State;
use deserr::Deserr;
use http::StatusCode;
use pilothouse_api::input::{FieldError, Violations, distinct_ids};
use pilothouse_api::skills::ProposedConsolidation;
use pilothouse_app::App;
use pilothouse_app::command::CommandResponse;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{AgentCaller, Problem};
use pilothouse_domain::MemoryPillId;
use pilothouse_domain::text::SkillInstructions;
use schemars::JsonSchema;

use super::skills::{SkillChange, change};
use crate::path::Skill;

pub const FUNCTION: HttpFunction = HttpFunction::new(
    "agent-consolidation",
    Verb::Post,
    "/api/agent/skills/{skillId}/consolidation",
    |verb| verb.route(submit_consolidation),
)
.agent()
.summary("Submit new instructions for a skill")
.input::<ProposeConsolidation>()
.output::<ProposedConsolidation>(&[202]);

/// The result of a consolidation.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProposeConsolidation {
    /// Ids of the memory pills that the new instructions incorporate. The session must have received these pills.
    #[deserr(try_from(Vec<String>) = distinct_ids -> FieldError)]
    pub pill_ids: Vec<MemoryPillId>,
    /// The complete new instructions. They replace the present ones.
    pub updated_instructions: SkillInstructions,
}

/// Responds with 202. The proposal is applied when the owner closes or approves the session. A later call replaces it.
async fn submit_consolidation(
    State(app): State<App>,
    caller: AgentCaller,
    Skill(skill): Skill,
    body: Body<ProposeConsolidation>,
) -> Result<CommandResponse, Problem> {
    let input = body.input;
    let skill_change = SkillChange { function: "agent-consolidation", request_hash: body.hash, skill };
    change(&app, &caller, skill_change, |skill, session, ctx| {
        let (ids, text) = (input.pill_ids.clone(), input.updated_instructions.clone());
        let events = skill.propose_consolidation(session.id(), ids, text, ctx)?;
        let proposal = skill.consolidation().and_then(|c| c.proposal.as_ref());
        let pill_count = proposal.map_or(0, |proposal| proposal.pill_ids.len());
        let response = ProposedConsolidation { skill_id: skill.id(), pill_count };
        Ok((events, CommandResponse::new(StatusCode::ACCEPTED, None, &response)?))
    })
    .await
}
