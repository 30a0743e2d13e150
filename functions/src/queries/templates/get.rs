//! `GET /api/agents/templates/{id}`: returns a template (S0 8.7 `GetAgentTemplateQuery`).

use axum::extract::State;
use pilothouse_api::templates::TemplateView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, Problem};
use pilothouse_domain::AgentTemplateId;
use pilothouse_domain::template::AgentTemplate;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("templates-get", Verb::Get, "/api/agents/templates/{id}", |verb| {
        verb.route(get_template)
    })
    .owner()
    .summary("Get a template")
    .output::<TemplateView>(&[200]);

/// Responds with 200 and the template. Commands accept its `ETag` in `If-Match`.
async fn get_template(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<AgentTemplateId>,
) -> Result<CommandResponse, Problem> {
    let loaded = app.load_aggregate::<AgentTemplate>(&command, id).await?;
    CommandResponse::ok(loaded.version, &TemplateView::of(&loaded.value, loaded.version))
}
