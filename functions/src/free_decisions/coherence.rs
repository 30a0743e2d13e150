//! A coherence issue that a model confirmed: a person resolves it, keeps it open or dismisses it (decision 91).

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_domain::coherence::CoherenceIssue;
use pilothouse_domain::decision::{CoherenceOutcome, Decision, DecisionSubject, Resolution, ResolvedBy};
use pilothouse_domain::journal::Cause;
use pilothouse_domain::text::Feedback;
use pilothouse_domain::tick::Tick;
use pilothouse_domain::{CoherenceIssueId, DomainContext};
use pilothouse_store::{Commit, LoadedAggregate};

/// The resolution of an issue if neither the person nor the model gave a text.
const RESOLVED: &str = "Resolved in the inbox.";

#[derive(Debug, Clone)]
pub(super) struct CoherenceState {
    issue: LoadedAggregate<CoherenceIssue>,
    tick: Tick,
}

impl CoherenceState {
    pub(super) async fn load(app: &App, id: CoherenceIssueId) -> Result<Self, Problem> {
        let issue = app.store.any_aggregate::<CoherenceIssue>(id).await?;
        let issue = issue.ok_or_else(|| Problem::internal("the issue of a decision is missing"))?;
        let time = app.project_time(issue.value.project_id()).await?.ok_or_else(Problem::no_project)?;
        Ok(Self { tick: time.tick(app.now())?, issue })
    }

    pub(super) fn settle(
        mut self,
        app: &App,
        cause: &Cause,
        decision: &Decision,
        (resolution, by): (&Resolution, &ResolvedBy),
        commit: &mut Commit,
        ctx: &DomainContext<'_>,
    ) -> Result<(), Problem> {
        let (Resolution::ChooseOption { chosen_option_id, rationale }, ResolvedBy::Owner { id: person }) =
            (resolution, by)
        else {
            return Err(Problem::internal("the end of a coherence issue without the choice of a person"));
        };
        let rationale = rationale.as_deref().map(Feedback::parse).transpose().map_err(Problem::internal)?;
        let issue = &mut self.issue.value;
        let events = match CoherenceOutcome::of_option(chosen_option_id) {
            Some(CoherenceOutcome::Resolve) => {
                issue.resolve(person, resolution_text(decision, rationale)?, self.tick, ctx)?
            }
            Some(CoherenceOutcome::KeepOpen) => issue.confirm(person, ctx)?,
            Some(CoherenceOutcome::Dismiss) => issue.dismiss(person, rationale, self.tick, ctx)?,
            None => return Err(Problem::internal(format!("{chosen_option_id} is no outcome of an issue"))),
        };
        if events.is_empty() {
            Ok(())
        } else {
            app.record_aggregate(commit, &self.issue, cause.clone(), events)
        }
    }
}

/// The text of the person, or the suggestion of the model.
fn resolution_text(decision: &Decision, rationale: Option<Feedback>) -> Result<Feedback, Problem> {
    if let Some(rationale) = rationale {
        return Ok(rationale);
    }
    let suggestion = match &decision.subject {
        DecisionSubject::CoherenceReview { suggested_resolution, .. } => suggested_resolution.as_deref(),
        _ => None,
    };
    Feedback::parse(suggestion.unwrap_or(RESOLVED)).map_err(Problem::internal)
}
