//! `POST /api/agents/templates/{id}/rules`: adds a rule for events (S0 8.7 `AddTemplateClassificationRuleCommand`).

use axum::extract::State;
use http::StatusCode;
use pilothouse_domain::AgentTemplateId;
use pilothouse_domain::template::NewRule;

use super::input::RuleInput;
use super::shown;
use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::input::Body;
use crate::edge::{Id, Problem};

/// 201 with the template; the new rule stands last, and comes after the others.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Id(id): Id<AgentTemplateId>,
    body: Body<RuleInput>,
) -> Result<Answer, Problem> {
    let call = call.with_body(&body.hash);
    app.change_owned(
        &call,
        id,
        |it: &mut pilothouse_domain::AgentTemplate, cx| {
            let rule = NewRule::from(body.input.clone()).with_id(cx);
            Ok(it.add_classification_rule(rule, cx)?)
        },
        shown(StatusCode::CREATED),
    )
    .await
}
