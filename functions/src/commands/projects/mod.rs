//! Commands on projects (S2; decision 71).

pub mod archive;
pub mod control_mode;
pub mod create;
pub mod input;
pub mod kill;
pub mod restore;
pub mod update;

use pilothouse_api::projects::ProjectView;
use pilothouse_app::command::CommandResponse;
use pilothouse_app::http::Problem;
use pilothouse_domain::Project;

/// Responds with 200 and the project.
fn project_response(project: &Project, version: u64) -> Result<CommandResponse, Problem> {
    CommandResponse::ok(version, &ProjectView::of(project, version))
}
