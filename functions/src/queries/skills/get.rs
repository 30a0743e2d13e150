//! `GET /api/agents/skills/{id}`: returns a skill (S0 8.7 `GetAgentSkillQuery`).

use axum::extract::State;
use pilothouse_api::skills::SkillView;
use pilothouse_app::App;
use pilothouse_app::command::CommandResponse;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, Owner, Problem};
use pilothouse_domain::skill::{MemoryPill, MemoryPillStatus};
use pilothouse_domain::{AgentSkill, AgentSkillId};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("skills-get", Verb::Get, "/api/agents/skills/{id}", |verb| verb.route(get_skill))
        .owner()
        .summary("Get a skill")
        .output::<SkillView>(&[200]);

/// Most memory pills of each archived status in the response.
const MAX_ARCHIVED: usize = 100;

/// Responds with 200, the skill and its memory pills: all Active ones, and the latest of each other status. The function
/// `skills-memory-pills` lists all pills.
async fn get_skill(
    State(app): State<App>,
    Owner(owner): Owner,
    Id(id): Id<AgentSkillId>,
) -> Result<CommandResponse, Problem> {
    let loaded = app.store.aggregate::<AgentSkill>(&owner, id).await?.ok_or_else(Problem::no_skill)?;
    let mut view = SkillView::of(&loaded.value, loaded.version);
    for status in [MemoryPillStatus::Consolidated, MemoryPillStatus::Dismissed] {
        let archived = app
            .store
            .archived_parts::<AgentSkill, MemoryPill>(id, status.group(), None, MAX_ARCHIVED)
            .await?;
        view.memory_pills.extend(archived);
    }
    view.memory_pills.sort_by_key(|pill| std::cmp::Reverse(pill.id));
    // A pill that is being archived is listed twice.
    view.memory_pills.dedup_by_key(|pill| pill.id);
    CommandResponse::ok(loaded.version, &view)
}
