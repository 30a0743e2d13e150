//! Trust of agents (S2, "Trust score calibration"; decision 68).

pub mod get;
pub mod simulate;

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::ticks::ProjectTime;
use pilothouse_domain::{ProjectAgent, ProjectAgentId, UserId};
use pilothouse_store::LoadedAggregate;

/// Loads an agent of `owner` and the time of its project.
///
/// # Errors
/// [`Problem::NotFound`] when the agent does not exist or belongs to another owner.
async fn agent_with_time(
    app: &App,
    owner: &UserId,
    id: ProjectAgentId,
) -> Result<(LoadedAggregate<ProjectAgent>, ProjectTime), Problem> {
    let agent = app.store.aggregate::<ProjectAgent>(owner, id).await?.ok_or_else(Problem::no_agent)?;
    let time = app.project_time(agent.value.project_id()).await?.ok_or_else(Problem::no_project)?;
    Ok((agent, time))
}
