//! `POST /api/projects/{id}/archive`: archives a project (decision 71).

use axum::extract::State;
use pilothouse_api::projects::ProjectView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, NoBody, Problem};
use pilothouse_domain::{DomainContext, Project, ProjectId};

use super::project_response;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("projects-archive", Verb::Post, "/api/projects/{id}/archive", |verb| {
        verb.route(archive_project)
    })
    .owner()
    .summary("Archive a project: no agents start in it any more")
    .output::<ProjectView>(&[200]);

/// Responds with 200 and the project. Agents that run already continue.
async fn archive_project(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<ProjectId>,
    _: NoBody,
) -> Result<CommandResponse, Problem> {
    let decide = |project: &mut Project, ctx: &mut DomainContext<'_>| Ok(project.archive(ctx));
    app.change_aggregate(&command, id, decide, project_response).await
}
