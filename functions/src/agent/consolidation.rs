//! `POST /api/agent/skills/{skillId}/consolidation`: the agent of a consolidation hands in new instructions
//! (docs/decisions/0011).

use axum::extract::State;
use deserr::Deserr;
use http::StatusCode;
use pilothouse_domain::MemoryPillId;
use pilothouse_domain::text::{InvalidText, SkillInstructions};
use schemars::JsonSchema;

use super::skills::{Asked, change};
use crate::api::skills::ProposedConsolidation;
use crate::app::App;
use crate::change::Answer;
use crate::edge::input::{Body, Said, Violations, distinct_ids};
use crate::edge::{AgentCaller, Problem};
use crate::skills::Skill;

/// The result of a consolidation.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProposeConsolidation {
    /// The pills that the new instructions hold, of those that the session was given.
    #[deserr(try_from(Vec<String>) = distinct_ids -> Said)]
    pub pill_ids: Vec<MemoryPillId>,
    /// The whole new instructions.
    #[deserr(try_from(String) = SkillInstructions::try_from -> InvalidText)]
    pub updated_instructions: SkillInstructions,
}

/// 202: it is applied when the owner closes or approves the session. A later call replaces it.
pub async fn handle(
    State(app): State<App>,
    caller: AgentCaller,
    Skill(skill): Skill,
    body: Body<ProposeConsolidation>,
) -> Result<Answer, Problem> {
    let input = body.input;
    let asked = Asked { function: "agent-consolidation", request_hash: body.hash, skill };
    change(&app, &caller, asked, |skill, session, cx| {
        let (ids, text) = (input.pill_ids.clone(), input.updated_instructions.clone());
        let events = skill.propose_consolidation(session.id(), ids, text, cx)?;
        let proposal = skill.consolidation().and_then(|c| c.proposal.as_ref());
        let pill_count = proposal.map_or(0, |proposal| proposal.pill_ids.len());
        let answer = ProposedConsolidation { skill_id: skill.id(), pill_count };
        Ok((events, Answer::new(StatusCode::ACCEPTED, None, &answer)?))
    })
    .await
}
