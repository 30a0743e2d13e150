//! `POST /api/agents/templates/{id}/rules`: adds a classification rule (S0 8.7 `AddTemplateClassificationRuleCommand`).

use axum::extract::State;
use http::StatusCode;
use pilothouse_api::templates::TemplateView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Body, Id, Problem};
use pilothouse_domain::template::NewRule;
use pilothouse_domain::{AgentTemplate, AgentTemplateId, DomainContext};

use super::input::RuleInput;
use super::shown;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("templates-add-rule", Verb::Post, "/api/agents/templates/{id}/rules", |verb| {
        verb.route(add_rule)
    })
    .owner()
    .summary("Add a classification rule to a template")
    .input::<RuleInput>()
    .output::<TemplateView>(&[201]);

/// Responds with 201 and the template. The new rule is the last in order.
async fn add_rule(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<AgentTemplateId>,
    body: Body<RuleInput>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let decide = |it: &mut AgentTemplate, ctx: &mut DomainContext<'_>| {
        let rule = NewRule::from(body.input.clone()).with_id(ctx);
        Ok(it.add_classification_rule(rule, ctx)?)
    };
    app.change_aggregate(&command, id, decide, shown(StatusCode::CREATED)).await
}
