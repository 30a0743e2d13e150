//! `POST /api/coherence/{id}/dismiss`: dismisses a coherence issue that is not real (decision 88).

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
    HttpFunction::new("coherence-dismiss", Verb::Post, "/api/coherence/{id}/dismiss", |verb| {
        verb.route(dismiss_issue)
    })
    .owner()
    .summary("Dismiss a coherence issue that is not real")
    .input::<DismissIssue>()
    .output::<CoherenceIssueView>(&[200]);

/// A dismissal.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct DismissIssue {
    /// The reason of the dismissal.
    #[deserr(default)]
    pub reason: Option<Feedback>,
}

/// Responds with 200 and the issue. The same finding is not reported again. An issue that was confirmed cannot be dismissed (409
/// `coherence-confirmed`), because it has counted for the trust of its reporter.
async fn dismiss_issue(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<CoherenceIssueId>,
    body: Body<DismissIssue>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let reason = body.input.reason;
    change(&app, &command, id, |issue, tick, ctx| {
        Ok(issue.dismiss(&command.owner, reason.clone(), tick, ctx)?)
    })
    .await
}
