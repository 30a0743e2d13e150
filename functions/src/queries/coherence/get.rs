//! `GET /api/coherence/{id}`: returns a coherence issue (decision 88).

use axum::extract::State;
use pilothouse_api::coherence::CoherenceIssueView;
use pilothouse_app::App;
use pilothouse_app::command::CommandResponse;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, Owner, Problem};
use pilothouse_domain::{CoherenceIssue, CoherenceIssueId};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("coherence-get", Verb::Get, "/api/coherence/{id}", |verb| verb.route(get_issue))
        .owner()
        .summary("Get a coherence issue")
        .output::<CoherenceIssueView>(&[200]);

/// Responds with 200 and the issue.
async fn get_issue(
    State(app): State<App>,
    Owner(owner): Owner,
    Id(id): Id<CoherenceIssueId>,
) -> Result<CommandResponse, Problem> {
    let loaded = app.store.aggregate::<CoherenceIssue>(&owner, id).await?;
    let loaded = loaded.ok_or_else(Problem::no_coherence_issue)?;
    CommandResponse::ok(loaded.version, &CoherenceIssueView::of(&loaded.value))
}
