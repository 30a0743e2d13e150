//! `GET /api/agents/skills/{id}`: a skill in full (S0 8.7 `GetAgentSkillQuery`).

use axum::extract::State;
use pilothouse_domain::{AgentSkill, AgentSkillId};

use super::{answer, no_skill};
use crate::app::App;
use crate::change::Answer;
use crate::edge::{Id, Owner, Problem};

/// 200 with the skill and its Active memory pills; the others are listed by `memory-pills`.
pub async fn handle(
    State(app): State<App>,
    Owner(owner): Owner,
    Id(id): Id<AgentSkillId>,
) -> Result<Answer, Problem> {
    let loaded = app.store.owned::<AgentSkill>(&owner, id).await?.ok_or_else(no_skill)?;
    answer(&loaded.value, loaded.version)
}
