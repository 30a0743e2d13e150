//! `POST /api/agent/skills/{skillId}/memory-pills`: records a memory pill (S0 8.7
//! `AgentRecordMemoryPillCommand`, AG-036).

use axum::extract::State;
use deserr::Deserr;
use http::StatusCode;
use pilothouse_api::input::Violations;
use pilothouse_api::skills::RecordedPill;
use pilothouse_app::App;
use pilothouse_app::command::CommandResponse;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{AgentCaller, Problem};
use pilothouse_domain::skill::MemoryPillCategory;
use pilothouse_domain::text::MemoryPillContent;
use schemars::JsonSchema;

use super::skills::{SkillChange, change};
use crate::path::Skill;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("agent-memory-pill", Verb::Post, "/api/agent/skills/{skillId}/memory-pills", |verb| {
        verb.route(record_memory_pill)
    })
    .agent()
    .summary("Record a memory pill")
    .input::<RecordMemoryPill>()
    .output::<RecordedPill>(&[201]);

/// A memory pill: something that the agent learned while it used a skill.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordMemoryPill {
    /// The learning, tip, mistake or convention as text.
    pub content: MemoryPillContent,
    /// The category of the pill.
    pub category: MemoryPillCategory,
}

/// Responds with 201 and the pill's id. The skill must belong to the session's owner. It need not be enabled for the session.
async fn record_memory_pill(
    State(app): State<App>,
    caller: AgentCaller,
    Skill(skill): Skill,
    body: Body<RecordMemoryPill>,
) -> Result<CommandResponse, Problem> {
    let input = body.input;
    let skill_change = SkillChange { function: "agent-memory-pill", request_hash: body.hash, skill };
    change(&app, &caller, skill_change, |skill, session, ctx| {
        let (pill_id, events) =
            skill.record_memory_pill(session.id(), input.content.clone(), input.category, ctx)?;
        Ok((events, CommandResponse::new(StatusCode::CREATED, None, &RecordedPill { pill_id })?))
    })
    .await
}
