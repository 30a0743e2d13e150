//! `GET /api/agents/skills`: lists the owner's skills by name (S0 8.7 `ListAgentSkillsQuery`).

use axum::Json;
use axum::extract::State;
use pilothouse_api::Page;
use pilothouse_api::skills::SkillSummary;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Owner, PageRequest, Problem};
use pilothouse_domain::AgentSkill;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("skills-list", Verb::Get, "/api/agents/skills", |verb| verb.route(list_skills))
        .owner()
        .summary("List skills by name")
        .query(&["limit", "cursor", "isActive"])
        .output::<Page<SkillSummary>>(&[200]);

/// Responds with 200 and a page. `isActive` filters by state. A filtered page may be short even if more pages follow.
async fn list_skills(
    State(app): State<App>,
    Owner(owner): Owner,
    page: PageRequest,
    parameters: Parameters,
) -> Result<Json<Page<SkillSummary>>, Problem> {
    let filter = parameters.text("isActive").unwrap_or_default();
    let wanted = match filter {
        "" => None,
        "true" => Some(true),
        "false" => Some(false),
        _ => return Err(Problem::invalid("isActive", "must be `true` or `false`")),
    };
    let keep = |skill: &AgentSkill| wanted.is_none_or(|active| skill.is_active() == active);
    Ok(Json(app.page_of_aggregates(&owner, &page, filter, false, keep, SkillSummary::of).await?))
}
