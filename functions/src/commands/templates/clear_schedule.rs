//! `DELETE /api/agents/templates/{id}/schedule`: removes the schedule (S0 8.4 `UpdateSchedule`).

use axum::extract::State;
use pilothouse_api::templates::TemplateView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, Problem};
use pilothouse_domain::AgentTemplateId;

pub const FUNCTION: HttpFunction = HttpFunction::new(
    "templates-clear-schedule",
    Verb::Delete,
    "/api/agents/templates/{id}/schedule",
    |verb| verb.route(clear_schedule),
)
.owner()
.summary("Remove the schedule of a template")
.output::<TemplateView>(&[200]);

/// Responds with 200 and the template.
async fn clear_schedule(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<AgentTemplateId>,
) -> Result<CommandResponse, Problem> {
    super::change(&app, &command, id, |it, ctx| Ok(it.update_schedule(None, ctx)?)).await
}
