//! Reacts to the journals of artifacts: indexes the words of new versions, counts new artifacts, checks their coherence, and counts
//! reviews for the trust of the authors (decision 84). Then it informs the agents that may read them.
//!
//! A commit that counts also stores a mark of what it counted, so that a repeated or late message changes nothing.

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_domain::artifact::{Artifact, ArtifactAuthor, ArtifactEvent};
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
    match event {
        ArtifactEvent::Reported { version, author, project_id, workstream, .. } => {
            let counted = if *version == 1 { count(app, *project_id, workstream, id).await } else { Ok(()) };
            let Some(artifact) = app.store.any_aggregate::<Artifact>(id).await? else { return counted };
            let artifact = &artifact.value;
            let indexed = search_index::index_artifact(app, artifact).await.and(counted);
            let checked = indexed.and(coherence::check_artifact(app, artifact).await);
            checked.and(injections::artifact_changed(app, artifact, (*version, author)).await)
        }
        ArtifactEvent::Approved { version, author, project_id } => {
            let outcome = TrustOutcome::ArtifactApproved;
            let counted = count_review(app, entry, (id, *version), author, outcome).await;
            counted.and(injections::artifact_approved(app, (id, *project_id), (*version, author)).await)
        }
        ArtifactEvent::Rejected { version, author, .. } => {
            count_review(app, entry, (id, *version), author, TrustOutcome::ArtifactRejected).await
        }
    }
}

/// Counts the review of a version for the trust of its author.
async fn count_review(
    app: &App,
    entry: &AggregateJournalEntry<ArtifactEvent>,
    (id, version): (ArtifactId, u32),
    author: &ArtifactAuthor,
    outcome: TrustOutcome,
) -> Result<(), Problem> {
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
