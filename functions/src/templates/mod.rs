//! Templates: what sessions are started from (S0 8.9). By hand a session is started in [`crate::sessions::start`], by
//! the clock in [`crate::clock::schedules`], by an event in [`classify`].

pub mod activate;
pub mod add_rule;
pub mod add_skill;
pub mod classify;
pub mod clear_schedule;
pub mod create;
pub mod deactivate;
pub mod get;
pub mod input;
pub mod list;
pub mod remove_rule;
pub mod remove_skill;
pub mod set_schedule;
pub mod update;

use http::StatusCode;
use pilothouse_domain::template::AgentTemplate;
use pilothouse_domain::{AgentTemplateId, Events, Occasion};

use crate::api::templates::TemplateView;
use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::Problem;

/// Changes a template by one domain call and answers with the template.
async fn change(
    app: &App,
    call: &Call,
    id: AgentTemplateId,
    decide: impl FnMut(&mut AgentTemplate, &mut Occasion<'_>) -> Result<Events, Problem>,
) -> Result<Answer, Problem> {
    app.change_owned(call, id, decide, shown(StatusCode::OK)).await
}

/// The answer with a template.
fn shown(status: StatusCode) -> impl Fn(&AgentTemplate, u64) -> Result<Answer, Problem> {
    move |template, version| Answer::new(status, Some(version), &TemplateView::of(template, version))
}
