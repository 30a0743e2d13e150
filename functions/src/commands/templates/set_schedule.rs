//! `PUT /api/agents/templates/{id}/schedule`: sets the schedule (S0 8.4 `UpdateSchedule`).

use axum::extract::State;
use pilothouse_api::templates::TemplateView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{Id, Problem};
use pilothouse_domain::AgentTemplateId;
use pilothouse_domain::template::AgentSchedule;

use super::input::ScheduleInput;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("templates-set-schedule", Verb::Put, "/api/agents/templates/{id}/schedule", |verb| {
        verb.route(set_schedule)
    })
    .owner()
    .summary("Set the schedule of a template")
    .input::<ScheduleInput>()
    .output::<TemplateView>(&[200]);

/// Responds with 200 and the template. Times before this request start no sessions.
async fn set_schedule(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<AgentTemplateId>,
    body: Body<ScheduleInput>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let schedule = AgentSchedule::from(body.input);
    super::change(&app, &command, id, |it, ctx| Ok(it.update_schedule(Some(schedule.clone()), ctx)?)).await
}
