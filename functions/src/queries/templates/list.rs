//! `GET /api/agents/templates`: lists the owner's templates, newest first (S0 8.7 `ListAgentTemplatesQuery`).

use axum::Json;
use axum::extract::State;
use pilothouse_api::Page;
use pilothouse_api::templates::TemplateSummary;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Owner, PageRequest, Problem};
use pilothouse_domain::template::AgentTemplate;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("templates-list", Verb::Get, "/api/agents/templates", |verb| {
        verb.route(list_templates)
    })
    .owner()
    .summary("List templates, newest first")
    .query(&["limit", "cursor", "isActive"])
    .output::<Page<TemplateSummary>>(&[200]);

/// Responds with 200 and a page. `isActive` filters by state.
async fn list_templates(
    State(app): State<App>,
    Owner(owner): Owner,
    page: PageRequest,
    parameters: Parameters,
) -> Result<Json<Page<TemplateSummary>>, Problem> {
    let wanted: Option<bool> = parameters.parsed("isActive")?;
    let filter = parameters.text("isActive").unwrap_or_default();
    let keep = |template: &AgentTemplate| wanted.is_none_or(|wanted| template.is_active() == wanted);
    Ok(Json(app.page_of_aggregates(&owner, &page, filter, true, keep, TemplateSummary::of).await?))
}
