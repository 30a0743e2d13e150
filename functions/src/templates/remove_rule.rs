//! `DELETE /api/agents/templates/{id}/rules/{ruleId}`: removes a rule (S0 8.7
//! `RemoveTemplateClassificationRuleCommand`).

use axum::extract::State;
use pilothouse_domain::AgentTemplateId;

use super::Rule;
use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::{Id, Problem};

/// 200 with the template.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Id(id): Id<AgentTemplateId>,
    Rule(rule): Rule,
) -> Result<Answer, Problem> {
    super::change(&app, &call, id, |it, cx| Ok(it.remove_classification_rule(rule, cx)?)).await
}
