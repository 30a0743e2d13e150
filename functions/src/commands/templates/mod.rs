//! Commands on templates (S0 8.9). Three functions start sessions from templates: [`crate::commands::sessions::start`] for
//! owners, [`crate::events::clock::schedules`] for schedules, and [`classify`] for external events.

pub mod activate;
pub mod add_rule;
pub mod add_skill;
pub mod add_tool;
pub mod classify;
pub mod clear_schedule;
pub mod create;
pub mod deactivate;
pub mod input;
pub mod remove_rule;
pub mod remove_skill;
pub mod remove_tool;
pub mod set_schedule;
pub mod update;

use http::StatusCode;
use pilothouse_api::templates::TemplateView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::http::Problem;
use pilothouse_domain::template::AgentTemplate;
use pilothouse_domain::{AgentTemplateId, DomainContext, TemplateEvent};

/// Changes a template with one domain call and responds with the template.
async fn change(
    app: &App,
    command: &CommandContext,
    id: AgentTemplateId,
    decide: impl FnMut(&mut AgentTemplate, &mut DomainContext<'_>) -> Result<Vec<TemplateEvent>, Problem>,
) -> Result<CommandResponse, Problem> {
    app.change_aggregate(command, id, decide, shown(StatusCode::OK)).await
}

/// Responds with a template and the given status.
fn shown(status: StatusCode) -> impl Fn(&AgentTemplate, u64) -> Result<CommandResponse, Problem> {
    move |template, version| CommandResponse::new(status, Some(version), &TemplateView::of(template, version))
}
