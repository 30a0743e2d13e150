//! `POST /api/coherence/{id}/confirm`: confirms that a coherence issue is real (decision 88).

use axum::extract::State;
use pilothouse_api::coherence::CoherenceIssueView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::NoBody;
use pilothouse_app::http::{Id, Problem};
use pilothouse_domain::CoherenceIssueId;

use super::change;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("coherence-confirm", Verb::Post, "/api/coherence/{id}/confirm", |verb| {
        verb.route(confirm_issue)
    })
    .owner()
    .summary("Confirm that a coherence issue is real")
    .output::<CoherenceIssueView>(&[200]);

/// Responds with 200 and the issue, which stays open until it is resolved. If an agent flagged it, the trust of that agent rises.
async fn confirm_issue(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<CoherenceIssueId>,
    _: NoBody,
) -> Result<CommandResponse, Problem> {
    change(&app, &command, id, |issue, _, ctx| Ok(issue.confirm(&command.owner, ctx)?)).await
}
