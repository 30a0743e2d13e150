//! `GET /api/agents/templates`: the owner's templates, newest first (S0 8.7 `ListAgentTemplatesQuery`).

use axum::Json;
use axum::extract::State;
use pilothouse_domain::template::AgentTemplate;

use crate::api::Page;
use crate::api::templates::TemplateSummary;
use crate::app::App;
use crate::edge::request::Parameters;
use crate::edge::{Owner, PageRequest, Problem};

/// 200 with a page; `isActive` keeps those that are active, or those that are not.
pub async fn handle(
    State(app): State<App>,
    Owner(owner): Owner,
    page: PageRequest,
    parameters: Parameters,
) -> Result<Json<Page<TemplateSummary>>, Problem> {
    let wanted: Option<bool> = parameters.parsed("isActive")?;
    let filter = parameters.text("isActive").unwrap_or_default();
    let keep = |template: &AgentTemplate| wanted.is_none_or(|wanted| template.is_active() == wanted);
    Ok(Json(app.page_of_owned(&owner, &page, filter, true, keep, TemplateSummary::of).await?))
}
