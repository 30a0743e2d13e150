//! `POST /api/agents/{id}/resume`: resumes an agent of a project (S2, "Frontend REST API").

use axum::extract::State;
use pilothouse_api::projects::AgentView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, NoBody, Problem};
use pilothouse_domain::ProjectAgentId;

use super::change_current_session_unless_braked;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("agents-resume", Verb::Post, "/api/agents/{id}/resume", |verb| {
        verb.route(resume_agent)
    })
    .owner()
    .summary("Resume a paused agent of a project")
    .output::<AgentView>(&[200, 202]);

/// Responds with 202 while the sidecar has not confirmed.
async fn resume_agent(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<ProjectAgentId>,
    _: NoBody,
) -> Result<CommandResponse, Problem> {
    change_current_session_unless_braked(&app, &command, id, |it, ctx| Ok(it.session.request_resume(ctx)?))
        .await
}
