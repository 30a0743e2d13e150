//! `GET /api/projects/{id}/briefing`: composes the briefing of a project (decision 87).

use axum::Json;
use axum::extract::State;
use pilothouse_api::briefing::Briefing;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Id, Owner, Problem};
use pilothouse_domain::ProjectId;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("projects-briefing", Verb::Get, "/api/projects/{id}/briefing", |verb| {
        verb.route(get_briefing)
    })
    .owner()
    .summary("Get the briefing of a project: attention, finished work, risks, automatic decisions and cost")
    .query(&["since"])
    .output::<Briefing>(&[200]);

/// Responds with 200 and the briefing of the period from `since`, a timestamp, by default of the last 24 hours. Archived projects have one
/// too.
async fn get_briefing(
    State(app): State<App>,
    Owner(owner): Owner,
    Id(id): Id<ProjectId>,
    parameters: Parameters,
) -> Result<Json<Briefing>, Problem> {
    Ok(Json(app.briefing(&owner, id, parameters.parsed("since")?).await?))
}
