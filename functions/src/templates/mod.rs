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

use std::str::FromStr;

use axum::extract::FromRequestParts;
use http::StatusCode;
use http::request::Parts;
use pilothouse_domain::template::AgentTemplate;
use pilothouse_domain::{AgentSkillId, AgentTemplateId, ClassificationRuleId, Events, Occasion};

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

/// What of a template the path names: a rule, a skill, a tool.
#[derive(Debug, Clone)]
pub struct InPath<T>(pub T);

/// A type of which paths name things.
pub trait NamedInPath: FromStr + Send {
    /// The parameter of the path.
    const PARAMETER: &'static str;
}

impl NamedInPath for ClassificationRuleId {
    const PARAMETER: &'static str = "ruleId";
}

impl NamedInPath for AgentSkillId {
    const PARAMETER: &'static str = "skillId";
}

impl<S: Send + Sync, T: NamedInPath> FromRequestParts<S> for InPath<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        path_id(parts, state, T::PARAMETER).await.map(Self)
    }
}
