//! `GET /api/projects/{id}`: returns a project.

use axum::extract::State;
use pilothouse_api::projects::ProjectView;
use pilothouse_app::App;
use pilothouse_app::command::CommandResponse;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, Owner, Problem};
use pilothouse_domain::{Project, ProjectId};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("projects-get", Verb::Get, "/api/projects/{id}", |verb| verb.route(get_project))
        .owner()
        .summary("Get a project")
        .output::<ProjectView>(&[200]);

/// Responds with 200 and the project.
async fn get_project(
    State(app): State<App>,
    Owner(owner): Owner,
    Id(id): Id<ProjectId>,
) -> Result<CommandResponse, Problem> {
    let loaded = app.store.aggregate::<Project>(&owner, id).await?.ok_or_else(Problem::no_project)?;
    let spending = app.spending(&loaded.value).await?;
    let view = ProjectView { spending, ..ProjectView::of(&loaded.value, loaded.version) };
    CommandResponse::ok(loaded.version, &view)
}
