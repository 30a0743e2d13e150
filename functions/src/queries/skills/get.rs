//! `GET /api/agents/skills/{id}`: returns a skill (S0 8.7 `GetAgentSkillQuery`).

use axum::extract::State;
use pilothouse_api::skills::SkillView;
use pilothouse_app::App;
use pilothouse_app::command::CommandResponse;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, Owner, Problem};
use pilothouse_domain::{AgentSkill, AgentSkillId};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("skills-get", Verb::Get, "/api/agents/skills/{id}", |verb| verb.route(get_skill))
        .owner()
        .summary("Get a skill")
        .output::<SkillView>(&[200]);

/// Responds with 200, the skill and its Active memory pills. The function `skills-memory-pills` lists all pills.
async fn get_skill(
    State(app): State<App>,
    Owner(owner): Owner,
    Id(id): Id<AgentSkillId>,
) -> Result<CommandResponse, Problem> {
    let loaded = app.store.aggregate::<AgentSkill>(&owner, id).await?.ok_or_else(Problem::no_skill)?;
    CommandResponse::ok(loaded.version, &SkillView::of(&loaded.value, loaded.version))
}
