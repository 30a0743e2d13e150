//! `POST /api/agents/{id}/kill`: cancels the session of an agent of a project (S2 `KillRequest`).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_api::input::Violations;
use pilothouse_api::projects::AgentView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{Id, Problem};
use pilothouse_domain::ProjectAgentId;
use schemars::JsonSchema;

use super::change_current_session;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("agents-kill", Verb::Post, "/api/agents/{id}/kill", |verb| verb.route(kill_agent))
        .owner()
        .summary("Cancel the session of an agent of a project")
        .input::<KillAgent>()
        .output::<AgentView>(&[200, 202]);

/// Options of a kill.
#[derive(Debug, Clone, Copy, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct KillAgent {
    /// Whether the agent is asked to stop first. Without it, the runtime ends its process at once. Default: `true`.
    #[deserr(default)]
    #[schemars(default)]
    pub grace: Option<bool>,
}

/// Responds with 202 while the sidecar has not confirmed.
async fn kill_agent(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<ProjectAgentId>,
    body: Body<KillAgent>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash).as_stop();
    let force = body.input.grace == Some(false);
    change_current_session(&app, &command, id, |it, ctx| Ok(it.session.request_cancel(force, ctx)?)).await
}
