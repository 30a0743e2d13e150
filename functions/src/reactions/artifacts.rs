//! Reacts to the journals of artifacts: indexes the words of new versions, counts new artifacts, checks their coherence, and counts
//! reviews for the trust of the authors (decision 84). Then it informs the agents that may read them.
//!
//! A commit that counts also stores a mark of what it counted, so that a repeated or late message changes nothing.

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_domain::artifact::{ArtifactAuthor, ArtifactEvent};
use pilothouse_domain::journal::AggregateJournalEntry;
use pilothouse_domain::knowledge::ArtifactTally;
use pilothouse_domain::text::WorkstreamId;
use pilothouse_domain::trust::{OutcomeSource, ReportedOutcome, TrustOutcome};
use pilothouse_domain::{ArtifactId, DomainContext, ProjectId};
use pilothouse_store::{Commit, Loaded};

use super::{coherence, injections, search_index, trust};

pub(super) async fn react(
    app: &App,
    entry: &AggregateJournalEntry<ArtifactEvent>,
    event: &ArtifactEvent,
) -> Result<(), Problem> {
    let id: ArtifactId = entry.aggregate_id.parse().map_err(Problem::internal)?;
    let done = count_event(app, entry, id, event).await;
    done.and(injections::react_of_artifact(app, id, event).await)
}

async fn count_event(
    app: &App,
    entry: &AggregateJournalEntry<ArtifactEvent>,
    id: ArtifactId,
    event: &ArtifactEvent,
) -> Result<(), Problem> {
    let (version, author, outcome) = match event {
        ArtifactEvent::Reported { version, project_id, workstream, .. } => {
            let counted = if *version == 1 { count(app, *project_id, workstream, id).await } else { Ok(()) };
            let indexed = search_index::react_of_artifact(app, id).await.and(counted);
            return indexed.and(coherence::check_artifact(app, id).await);
        }
        ArtifactEvent::Approved { version, author, .. } => (*version, author, TrustOutcome::ArtifactApproved),
        ArtifactEvent::Rejected { version, author, .. } => (*version, author, TrustOutcome::ArtifactRejected),
    };
    let ArtifactAuthor::Agent { agent_id, session_id, .. } = author else { return Ok(()) };
    let source = OutcomeSource::Artifact { id, version };
    let cause = (*session_id, entry.id);
    trust::count_once(app, *agent_id, cause, source, ReportedOutcome::new(outcome)).await
}

/// Counts an artifact once.
async fn count(
    app: &App,
    project: ProjectId,
    workstream: &WorkstreamId,
    id: ArtifactId,
) -> Result<(), Problem> {
    let load = async || {
        let is_counted = app.store.is_artifact_counted(id).await?;
        Ok::<_, Problem>((is_counted, app.store.artifact_tally(project).await?))
    };
    let decide = |(is_counted, mut tally): (bool, Loaded<ArtifactTally>), _: &mut DomainContext<'_>| {
        if is_counted {
            return Ok(Decision::Unchanged(()));
        }
        tally.value.count(workstream.clone());
        let mut commit = Commit::new();
        commit.artifact_tally(project, &tally, id)?;
        Ok(Decision::Commit(commit, ()))
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}
