//! Finds projects and their agents for the commands.

use pilothouse_api::projects::{AgentView, ProjectSummary};
use pilothouse_domain::ProjectId;

use super::pages;
use crate::context::Context;
use crate::error::CliError;

/// The maximum page size of the server for projects, agents and decision logs.
pub(super) const PAGE: u32 = 100;

/// The id of a project, given its id or its name.
pub(super) async fn resolve_project(ctx: &Context, given: &str) -> Result<ProjectId, CliError> {
    if let Ok(id) = given.parse() {
        return Ok(id);
    }
    let found = all_projects(ctx, None).await?.into_iter().find(|project| project.name == given);
    found.map(|project| project.id).ok_or_else(|| {
        CliError::NotFound(format!("there is no project `{given}`; `pilothouse project list` lists them"))
    })
}

/// All projects of the owner; `archived` selects archived or open ones.
pub(super) async fn all_projects(
    ctx: &Context,
    archived: Option<bool>,
) -> Result<Vec<ProjectSummary>, CliError> {
    pages::all(PAGE, async |slice| ctx.client.projects(archived, slice).await).await
}

/// All agents of a project, oldest first.
pub(super) async fn all_agents(
    ctx: &Context,
    project: Option<ProjectId>,
) -> Result<Vec<AgentView>, CliError> {
    pages::all(PAGE, async |slice| ctx.client.agents(project, slice).await).await
}
