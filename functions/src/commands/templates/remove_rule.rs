//! `DELETE /api/agents/templates/{id}/rules/{ruleId}`: removes a classification rule (S0 8.7
//! `RemoveTemplateClassificationRuleCommand`).

use axum::extract::State;
use pilothouse_api::templates::TemplateView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, Problem};
use pilothouse_domain::AgentTemplateId;

use crate::path::Rule;

pub const FUNCTION: HttpFunction = HttpFunction::new(
    "templates-remove-rule",
    Verb::Delete,
    "/api/agents/templates/{id}/rules/{ruleId}",
    |verb| verb.route(remove_rule),
)
.owner()
.summary("Remove a classification rule from a template")
.output::<TemplateView>(&[200]);

/// Responds with 200 and the template.
async fn remove_rule(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<AgentTemplateId>,
    Rule(rule): Rule,
) -> Result<CommandResponse, Problem> {
    super::change(&app, &command, id, |it, ctx| Ok(it.remove_classification_rule(rule, ctx)?)).await
}
