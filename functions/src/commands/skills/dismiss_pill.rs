//! `DELETE /api/agents/skills/{id}/memory-pills/{pillId}`: dismisses a memory pill (S0 8.7 `DismissMemoryPillCommand`).

use axum::extract::State;
use pilothouse_api::skills::SkillView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, Problem};
use pilothouse_domain::skill::{MemoryPill, MemoryPillStatus, SkillError};
use pilothouse_domain::{AgentSkill, AgentSkillId};

use super::skill_response;
use crate::path::{Pill, no_pill};

pub const FUNCTION: HttpFunction = HttpFunction::new(
    "skills-dismiss-pill",
    Verb::Delete,
    "/api/agents/skills/{id}/memory-pills/{pillId}",
    |verb| verb.route(dismiss_memory_pill),
)
.owner()
.summary("Dismiss a memory pill")
.output::<SkillView>(&[200]);

/// Responds with 200 and the skill, or with 409 `pill-not-active` when the pill was consolidated or dismissed before.
async fn dismiss_memory_pill(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<AgentSkillId>,
    Pill(pill): Pill,
) -> Result<CommandResponse, Problem> {
    let decide = |skill: &mut AgentSkill, ctx: &mut pilothouse_domain::DomainContext<'_>| {
        Ok(skill.dismiss_memory_pill(pill, ctx)?)
    };
    match app.change_aggregate(&command, id, decide, skill_response).await {
        Err(refusal @ Problem::Skill(SkillError::PillsNotActive { .. })) => {
            // Archived pills have a record. Without one, the pill never existed.
            for status in [MemoryPillStatus::Dismissed, MemoryPillStatus::Consolidated] {
                let record = app
                    .store
                    .archived_part::<AgentSkill, MemoryPill>(id, status.group(), &pill.to_string())
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
