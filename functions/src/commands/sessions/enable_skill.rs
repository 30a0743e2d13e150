//! `POST /api/agents/sessions/{id}/skills/{skillId}/enable`: enables a skill for a session between turns (S0 8.4
//! `EnableSkill`).

use axum::extract::State;
use pilothouse_api::sessions::SessionView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{NoBody, Problem, Session};
use pilothouse_app::session_config;

use crate::path::Skill;

pub const FUNCTION: HttpFunction = HttpFunction::new(
    "sessions-enable-skill",
    Verb::Post,
    "/api/agents/sessions/{id}/skills/{skillId}/enable",
    |verb| verb.route(enable_skill),
)
.owner()
.summary("Enable a skill for a session between turns")
.output::<SessionView>(&[200]);

/// Responds with 200 and the session. A running sidecar loads the skill with the next reload.
async fn enable_skill(
    State(app): State<App>,
    command: CommandContext,
    Session(id): Session,
    Skill(skill): Skill,
    _: NoBody,
) -> Result<CommandResponse, Problem> {
    let session = app.session_of(&command.owner, id).await?;
    session_config::ensure_can_be_enabled(&app, &session, skill).await?;
    app.change_session(&command, id, |it, _| Ok(it.session.enable_skill(skill)?)).await
}
