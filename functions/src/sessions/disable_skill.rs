//! `DELETE /api/agents/sessions/{id}/skills/{skillId}`: takes a skill out of a session between turns (S0 8.4
//! `DisableSkill`).

use axum::extract::State;

use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::{Problem, Session};
use crate::skills::Skill;

/// 200 with the session. A sidecar that is up keeps the skill until the next reload.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Session(id): Session,
    Skill(skill): Skill,
) -> Result<Answer, Problem> {
    app.command(&call, id, |it, _| Ok(it.session.disable_skill(skill)?)).await
}
