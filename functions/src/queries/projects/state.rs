//! `GET /api/projects/{id}/state`: returns the state of a project with its place in the stream (decision 82).

use axum::Json;
use axum::extract::State;
use pilothouse_api::project_stream::ProjectStateView;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, Owner, Problem};
use pilothouse_domain::ProjectId;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("projects-state", Verb::Get, "/api/projects/{id}/state", |verb| {
        verb.route(get_project_state)
    })
    .owner()
    .summary("Get the state of a project with its agents, decisions, trust, brakes and tick")
    .output::<ProjectStateView>(&[200]);

/// Responds with 200, the state, and the cursor after which the stream continues.
async fn get_project_state(
    State(app): State<App>,
    Owner(owner): Owner,
    Id(id): Id<ProjectId>,
) -> Result<Json<ProjectStateView>, Problem> {
    let (state, position) = app.project_state(&owner, id).await?;
    Ok(Json(ProjectStateView { cursor: position.encode(), state }))
}
