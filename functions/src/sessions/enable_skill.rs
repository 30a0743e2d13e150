//! `POST /api/agents/sessions/{id}/skills/{skillId}/enable`: loads a skill into a session between turns (S0 8.4
//! `EnableSkill`).

use axum::extract::State;

use crate::app::App;
use crate::change::{Answer, Call};
use crate::config;
use crate::edge::{NoBody, Problem, Session};
use crate::skills::Skill;

/// 200 with the session. A sidecar that is up takes the skill with the next reload.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Session(id): Session,
    Skill(skill): Skill,
    _: NoBody,
) -> Result<Answer, Problem> {
    let session = app.session_of(&call.owner, id).await?;
    config::ensure_can_be_enabled(&app, &session, skill).await?;
    app.command(&call, id, |it, _| Ok(it.session.enable_skill(skill)?)).await
}
