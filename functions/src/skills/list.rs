//! `GET /api/agents/skills`: the owner's skills by name (S0 8.7 `ListAgentSkillsQuery`).

use axum::Json;
use axum::extract::State;
use pilothouse_domain::AgentSkill;

use crate::api::Page;
use crate::api::skills::SkillSummary;
use crate::app::App;
use crate::edge::request::Parameters;
use crate::edge::{Owner, PageRequest, Problem};

/// 200 with a page; `isActive` keeps the active ones or the others. A page may be short although there are more.
pub async fn handle(
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
    Ok(Json(app.page_of_owned(&owner, &page, filter, false, keep, SkillSummary::of).await?))
}
