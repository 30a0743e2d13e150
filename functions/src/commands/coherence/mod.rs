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
use pilothouse_app::unit_of_work::Decision;
use pilothouse_domain::coherence::{CoherenceEvent, CoherenceIssue, IssueReview};
use pilothouse_domain::decision::{CancelReason, FreeDecision};
use pilothouse_domain::tick::Tick;
use pilothouse_domain::{CoherenceIssueId, DomainContext};
use pilothouse_store::{Commit, Loaded, LoadedAggregate};

/// An issue with its decision, if a model confirmed it.
struct IssueState {
    issue: LoadedAggregate<CoherenceIssue>,
    decision: Option<Loaded<FreeDecision>>,
    tick: Tick,
}

impl IssueState {
    async fn load(app: &App, command: &CommandContext, id: CoherenceIssueId) -> Result<Self, Problem> {
        let issue = app.store.aggregate::<CoherenceIssue>(&command.owner, id).await?;
        let issue = issue.ok_or_else(Problem::no_coherence_issue)?;
        let decision = match issue.value.review() {
            Some(IssueReview::Confirmed { at, .. }) => {
                app.store.free_decision(FreeDecision::coherence_review_of(id, *at)).await?
            }
            _ => None,
        };
        let time = app.project_time(issue.value.project_id()).await?.ok_or_else(Problem::no_project)?;
        Ok(Self { tick: time.tick(app.now())?, issue, decision })
    }
}

/// Changes the status of an issue at the current tick of its project. The same commit cancels its decision.
async fn change(
    app: &App,
    command: &CommandContext,
    id: CoherenceIssueId,
    decide: impl Fn(&mut CoherenceIssue, Tick, &DomainContext<'_>) -> Result<Vec<CoherenceEvent>, Problem>,
) -> Result<CommandResponse, Problem> {
    let load = async || IssueState::load(app, command, id).await;
    let decide = |state: IssueState, ctx: &mut DomainContext<'_>| {
        let IssueState { mut issue, decision, tick } = state;
        command.check_version(issue.version)?;
        let events = decide(&mut issue.value, tick, ctx)?;
        let view = CoherenceIssueView::of(&issue.value);
        if events.is_empty() {
            return Ok(Decision::Unchanged(CommandResponse::ok(issue.version, &view)?));
        }
        let response = CommandResponse::ok(issue.next_version(), &view)?;
        let mut commit = Commit::new();
        app.record_aggregate(&mut commit, &issue, command.cause(), events)?;
        if let Some(mut decision) = decision
            && decision.value.cancel(CancelReason::IssueSettled, ctx.now).is_ok()
        {
            commit.free_decision(&decision)?;
        }
        Ok(Decision::Commit(commit, response))
    };
    app.unit_of_work().run_command(command, load, decide).await
}
