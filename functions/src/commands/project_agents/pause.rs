//! `POST /api/agents/{id}/pause`: pauses an agent of a project (S2, "Frontend REST API").

use axum::extract::State;
use pilothouse_api::projects::AgentView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, NoBody, Problem};
use pilothouse_domain::ProjectAgentId;

use super::change_current_session;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("agents-pause", Verb::Post, "/api/agents/{id}/pause", |verb| verb.route(pause_agent))
        .owner()
        .summary("Pause an agent of a project")
        .output::<AgentView>(&[200, 202]);

/// Responds with 202 while the sidecar has not confirmed.
async fn pause_agent(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<ProjectAgentId>,
    _: NoBody,
) -> Result<CommandResponse, Problem> {
    change_current_session(&app, &command.as_stop(), id, |it, ctx| Ok(it.session.request_pause(ctx)?)).await
}
