//! `DELETE /api/agents/skills/{id}/memory-pills/{pillId}`: discards a memory pill (S0 8.7 `DismissMemoryPillCommand`).

use axum::extract::State;
use pilothouse_domain::skill::{MemoryPill, MemoryPillStatus, SkillError};
use pilothouse_domain::{AgentSkill, AgentSkillId};

use super::{Pill, answer, no_pill};
use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::{Id, Problem};

/// 200 with the skill; 409 `pill-not-active` when it was consolidated or dismissed before.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Id(id): Id<AgentSkillId>,
    Pill(pill): Pill,
) -> Result<Answer, Problem> {
    let decide = |skill: &mut AgentSkill, cx: &mut pilothouse_domain::Occasion<'_>| {
        Ok(skill.dismiss_memory_pill(pill, cx)?)
    };
    match app.change_owned(&call, id, decide, answer).await {
        Err(refusal @ Problem::Skill(SkillError::PillsNotActive { .. })) => {
            // One that is over stands in a record; one that never was does not.
            for status in [MemoryPillStatus::Dismissed, MemoryPillStatus::Consolidated] {
                let record = app
                    .store
                    .departed_part::<AgentSkill, MemoryPill>(id, status.group(), &pill.to_string())
                    .await?;
                if record.is_some() {
                    return Err(refusal);
                }
            }
            Err(no_pill())
        }
        other => other,
    }
}
