//! `DELETE /api/agents/templates/{id}/schedule`: it starts no session by itself any more (S0 8.4 `UpdateSchedule`).

use axum::extract::State;
use pilothouse_domain::AgentTemplateId;

use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::{Id, Problem};

/// 200 with the template.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Id(id): Id<AgentTemplateId>,
) -> Result<Answer, Problem> {
    super::change(&app, &call, id, |it, cx| Ok(it.update_schedule(None, cx)?)).await
}
