//! `GET /api/projects/{id}/briefing`: what happened in a project, in sentences that link to their events (decision 87).

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
    .summary(
        "Get a briefing: what needs you, was finished, is at risk, was decided automatically, and the cost",
    )
    .query(&["since"])
    .output::<Briefing>(&[200]);

/// Responds with 200 and the briefing about the time since the timestamp `since`, by default about the last 24 hours. Archived projects
/// have one too.
async fn get_briefing(
    State(app): State<App>,
    Owner(owner): Owner,
    Id(id): Id<ProjectId>,
    parameters: Parameters,
) -> Result<Json<Briefing>, Problem> {
    Ok(Json(app.briefing(&owner, id, parameters.parsed("since")?).await?))
}
