//! Commands on coherence issues (S2, "Coherence Monitoring"; decision 88).

pub mod audit;
pub mod confirm;
pub mod dismiss;
pub mod report;
pub mod resolve;

use pilothouse_api::coherence::CoherenceIssueView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::http::Problem;
use pilothouse_domain::coherence::{CoherenceEvent, CoherenceIssue};
use pilothouse_domain::tick::Tick;
use pilothouse_domain::{CoherenceIssueId, DomainContext};

/// Changes an issue at the current tick of its project.
async fn change(
    app: &App,
    command: &CommandContext,
    id: CoherenceIssueId,
    decide: impl Fn(&mut CoherenceIssue, Tick, &DomainContext<'_>) -> Result<Vec<CoherenceEvent>, Problem>,
) -> Result<CommandResponse, Problem> {
    let issue = app.store.aggregate::<CoherenceIssue>(&command.owner, id).await?;
    let issue = issue.ok_or_else(Problem::no_coherence_issue)?;
    let time = app.project_time(issue.value.project_id()).await?.ok_or_else(Problem::no_project)?;
    let tick = time.tick(app.now())?;
    let show = |issue: &CoherenceIssue, version| CommandResponse::ok(version, &CoherenceIssueView::of(issue));
    app.change_aggregate(command, id, |issue, ctx| decide(issue, tick, ctx), show).await
}
