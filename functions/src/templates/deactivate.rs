//! `POST /api/agents/templates/{id}/deactivate`: no session starts from it any more; those that run go on (S0 8.7).

use axum::extract::State;
use pilothouse_domain::AgentTemplateId;

use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::{Id, NoBody, Problem};

/// 200 with the template.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Id(id): Id<AgentTemplateId>,
    _: NoBody,
) -> Result<Answer, Problem> {
    super::change(&app, &call, id, |it, cx| Ok(it.deactivate(cx))).await
}
