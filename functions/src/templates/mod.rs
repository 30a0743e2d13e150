//! Templates: what sessions are started from (S0 8.9). By hand a session is started in [`crate::sessions::start`], by
//! the clock in [`crate::clock::schedules`], by an event in [`classify`].

pub mod activate;
pub mod add_rule;
pub mod add_skill;
pub mod add_tool;
pub mod classify;
pub mod clear_schedule;
pub mod create;
pub mod deactivate;
pub mod get;
pub mod input;
pub mod list;
pub mod remove_rule;
pub mod remove_skill;
pub mod remove_tool;
pub mod set_schedule;
pub mod update;

use axum::extract::FromRequestParts;
use http::StatusCode;
use http::request::Parts;
use pilothouse_domain::template::{AgentTemplate, TemplateError};
use pilothouse_domain::{AgentTemplateId, ClassificationRuleId, Events, Occasion};

use crate::api::templates::TemplateView;
use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::Problem;
use crate::edge::request::path_id;

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

/// `{ruleId}` in a path.
#[derive(Debug, Clone, Copy)]
pub struct Rule(pub ClassificationRuleId);

impl<S: Send + Sync> FromRequestParts<S> for Rule {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        path_id(parts, state, "ruleId").await.map(Self).map_err(|_| TemplateError::NoSuchRule.into())
    }
}

/// `{toolName}` in a path.
#[derive(Debug, Clone)]
pub struct ToolInPath(pub String);

impl<S: Send + Sync> FromRequestParts<S> for ToolInPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        path_id(parts, state, "toolName").await.map(Self)
    }
}
