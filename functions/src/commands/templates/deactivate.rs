//! `POST /api/agents/templates/{id}/deactivate`: deactivates a template. Its running sessions continue (S0 8.7).

use axum::extract::State;
use pilothouse_api::templates::TemplateView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, NoBody, Problem};
use pilothouse_domain::AgentTemplateId;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("templates-deactivate", Verb::Post, "/api/agents/templates/{id}/deactivate", |verb| {
        verb.route(deactivate_template)
    })
    .owner()
    .summary("Deactivate a template")
    .output::<TemplateView>(&[200]);

/// Responds with 200 and the template.
async fn deactivate_template(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<AgentTemplateId>,
    _: NoBody,
) -> Result<CommandResponse, Problem> {
    super::change(&app, &command, id, |it, ctx| Ok(it.deactivate(ctx))).await
}
