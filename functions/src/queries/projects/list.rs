//! `GET /api/projects`: lists the owner's projects, newest first.

use axum::Json;
use axum::extract::State;
use pilothouse_api::Page;
use pilothouse_api::projects::ProjectSummary;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Owner, PageRequest, Problem};
use pilothouse_domain::Project;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("projects-list", Verb::Get, "/api/projects", |verb| verb.route(list_projects))
        .owner()
        .summary("List projects, newest first")
        .query(&["limit", "cursor", "isArchived"])
        .output::<Page<ProjectSummary>>(&[200]);

/// Responds with 200 and a page. `isArchived` filters by state. A filtered page may be short even if more pages follow.
async fn list_projects(
    State(app): State<App>,
    Owner(owner): Owner,
    page: PageRequest,
    parameters: Parameters,
) -> Result<Json<Page<ProjectSummary>>, Problem> {
    let wanted: Option<bool> = parameters.parsed("isArchived")?;
    let filter = parameters.text("isArchived").unwrap_or_default();
    let keep = |project: &Project| wanted.is_none_or(|wanted| project.archived_at().is_some() == wanted);
    Ok(Json(app.page_of_aggregates(&owner, &page, filter, true, keep, ProjectSummary::of).await?))
}
