//! `PUT /api/agents/templates/{id}/schedule`: says when it starts a session by itself (S0 8.4 `UpdateSchedule`).

use axum::extract::State;
use pilothouse_domain::AgentTemplateId;
use pilothouse_domain::template::AgentSchedule;

use super::input::ScheduleInput;
use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::input::Body;
use crate::edge::{Id, Problem};

/// 200 with the template. Times count from now on.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Id(id): Id<AgentTemplateId>,
    body: Body<ScheduleInput>,
) -> Result<Answer, Problem> {
    let call = call.with_body(&body.hash);
    let schedule = AgentSchedule::from(body.input);
    super::change(&app, &call, id, |it, cx| Ok(it.update_schedule(Some(schedule.clone()), cx)?)).await
}
