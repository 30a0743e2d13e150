//! `POST /api/projects/{id}/restore`: restores an archived project (decision 71).

use axum::extract::State;
use pilothouse_api::projects::ProjectView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, NoBody, Problem};
use pilothouse_domain::{DomainContext, Project, ProjectId};

use super::project_response;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("projects-restore", Verb::Post, "/api/projects/{id}/restore", |verb| {
        verb.route(restore_project)
    })
    .owner()
    .summary("Restore an archived project")
    .output::<ProjectView>(&[200]);

/// Responds with 200 and the project.
async fn restore_project(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<ProjectId>,
    _: NoBody,
) -> Result<CommandResponse, Problem> {
    let decide = |project: &mut Project, ctx: &mut DomainContext<'_>| Ok(project.restore(ctx));
    app.change_aggregate(&command, id, decide, project_response).await
}
