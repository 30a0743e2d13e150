//! `POST /api/agent/skills/{skillId}/memory-pills`: the agent records what it learned (S0 8.7
//! `AgentRecordMemoryPillCommand`, AG-036).

use axum::extract::State;
use deserr::Deserr;
use http::StatusCode;
use pilothouse_domain::skill::MemoryPillCategory;
use pilothouse_domain::text::{InvalidText, MemoryPillContent};
use schemars::JsonSchema;
use serde_json::Value;

use super::skills::{Asked, change};
use crate::api::skills::RecordedPill;
use crate::app::App;
use crate::change::Answer;
use crate::edge::input::{Body, Said, Violations, by_serde};
use crate::edge::{AgentCaller, Problem};
use crate::skills::Skill;

/// What was learned.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordMemoryPill {
    /// The learning, tip, mistake or convention.
    #[deserr(try_from(String) = MemoryPillContent::try_from -> InvalidText)]
    pub content: MemoryPillContent,
    /// What kind of learning it is.
    #[deserr(try_from(Value) = by_serde::<MemoryPillCategory> -> Said)]
    pub category: MemoryPillCategory,
}

/// 201 with the pill's id. The skill need not be enabled on the session; it must be its owner's.
pub async fn handle(
    State(app): State<App>,
    caller: AgentCaller,
    Skill(skill): Skill,
    body: Body<RecordMemoryPill>,
) -> Result<Answer, Problem> {
    let input = body.input;
    let asked = Asked { function: "agent-memory-pill", request_hash: body.hash, skill };
    change(&app, &caller, asked, |skill, session, cx| {
        let (pill_id, events) =
            skill.record_memory_pill(session.id(), input.content.clone(), input.category, cx)?;
        Ok((events, Answer::new(StatusCode::CREATED, None, &RecordedPill { pill_id })?))
    })
    .await
}
