//! `POST /api/agents/templates/{id}/rules`: adds a rule for events (S0 8.7 `AddTemplateClassificationRuleCommand`).

use axum::extract::State;
use http::StatusCode;
use pilothouse_domain::template::NewRule;
use pilothouse_domain::{AgentTemplate, AgentTemplateId, Occasion};

use super::input::RuleInput;
use super::shown;
use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::{Body, Id, Problem};

/// 201 with the template; the new rule stands last, and comes after the others.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Id(id): Id<AgentTemplateId>,
    body: Body<RuleInput>,
) -> Result<Answer, Problem> {
    let call = call.with_body(&body.hash);
    let decide = |it: &mut AgentTemplate, cx: &mut Occasion<'_>| {
        let rule = NewRule::from(body.input.clone()).with_id(cx);
        Ok(it.add_classification_rule(rule, cx)?)
    };
    app.change_owned(&call, id, decide, shown(StatusCode::CREATED)).await
}
