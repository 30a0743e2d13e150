//! `POST /api/coherence/{id}/resolve`: records that the parts of a coherence issue fit together now (S2 `resolveCoherenceIssue`).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_api::coherence::CoherenceIssueView;
use pilothouse_api::input::Violations;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{Id, Problem};
use pilothouse_domain::CoherenceIssueId;
use pilothouse_domain::text::Feedback;
use schemars::JsonSchema;

use super::change;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("coherence-resolve", Verb::Post, "/api/coherence/{id}/resolve", |verb| {
        verb.route(resolve_issue)
    })
    .owner()
    .summary("Resolve a coherence issue")
    .input::<ResolveIssue>()
    .output::<CoherenceIssueView>(&[200]);

/// A resolution.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResolveIssue {
    /// The changes that solved the problem.
    pub resolution: Feedback,
}

/// Responds with 200 and the issue, which no longer counts for the score. A later version with the same problem opens it again.
async fn resolve_issue(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<CoherenceIssueId>,
    body: Body<ResolveIssue>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let resolution = body.input.resolution;
    change(&app, &command, id, |issue, tick, ctx| {
        Ok(issue.resolve(&command.owner, resolution.clone(), tick, ctx)?)
    })
    .await
}
