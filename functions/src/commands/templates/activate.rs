//! `POST /api/agents/templates/{id}/activate`: activates a template (S0 8.7).

use axum::extract::State;
use pilothouse_api::templates::TemplateView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, NoBody, Problem};
use pilothouse_domain::AgentTemplateId;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("templates-activate", Verb::Post, "/api/agents/templates/{id}/activate", |verb| {
        verb.route(activate_template)
    })
    .owner()
    .summary("Activate a template")
    .output::<TemplateView>(&[200]);

/// Responds with 200 and the template.
async fn activate_template(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<AgentTemplateId>,
    _: NoBody,
) -> Result<CommandResponse, Problem> {
    super::change(&app, &command, id, |it, ctx| Ok(it.activate(ctx))).await
}
