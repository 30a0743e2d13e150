//! `DELETE /api/agents/sessions/{id}/skills/{skillId}`: disables a skill for a session between turns (S0 8.4
//! `DisableSkill`).

use axum::extract::State;
use pilothouse_api::sessions::SessionView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Problem, Session};

use crate::path::Skill;

pub const FUNCTION: HttpFunction = HttpFunction::new(
    "sessions-disable-skill",
    Verb::Delete,
    "/api/agents/sessions/{id}/skills/{skillId}",
    |verb| verb.route(disable_skill),
)
.owner()
.summary("Disable a skill for a session between turns")
.output::<SessionView>(&[200]);

/// Responds with 200 and the session. A running sidecar keeps the skill until the next reload.
async fn disable_skill(
    State(app): State<App>,
    command: CommandContext,
    Session(id): Session,
    Skill(skill): Skill,
) -> Result<CommandResponse, Problem> {
    app.change_session(&command, id, |it, _| Ok(it.session.disable_skill(skill)?)).await
}
