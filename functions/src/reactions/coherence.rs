//! Checks new versions again for coherence, compares the recommendations of agents and the choices that were made, and counts issues for
//! the trust of agents (S2, "Coherence Monitoring"; decision 88). The id of an issue follows from its parts, so that a repeated or late message changes nothing.

use std::collections::BTreeSet;

use futures_util::future::try_join_all;
use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_domain::artifact::Artifact;
use pilothouse_domain::coherence::structural::{Recommendation, decision_conflict};
use pilothouse_domain::coherence::{CoherenceEvent, CoherenceIssue, Detected, IssueSource, ResolvedDecision};
use pilothouse_domain::decision::{self, DecisionSubject};
use pilothouse_domain::journal::{AggregateJournalEntry, Cause, JournalEntry};
use pilothouse_domain::tick::Tick;
use pilothouse_domain::trust::{OutcomeSource, ReportedOutcome, TrustOutcome};
use pilothouse_domain::value::ProjectMembership;
use pilothouse_domain::{
    ArtifactId, CoherenceIssueId, DecisionId, DomainContext, Project, ProjectAgent, ProjectId, SessionEvent,
    UserId,
};
use pilothouse_store::Commit;

use super::{injections, trust};
use crate::coherence::Detection;
use crate::coherence::scan::{self, scan_after};
use crate::coherence::structural::check_again;

/// The latest recommendations for an artifact that are compared.
const COMPARED: usize = 20;

fn cause() -> Cause {
    Cause::Reaction { function: "coherence".to_owned() }
}

/// Layer 0 for the latest version of an artifact, and layer 1 if it is due.
pub(super) async fn check_artifact(app: &App, artifact: &Artifact) -> Result<(), Problem> {
    check_structure(app, artifact).await?;
    scan_after(app, artifact.project_id(), artifact.latest().tick).await
}

/// Loads the artifact again after a lost race.
async fn check_structure(app: &App, artifact: &Artifact) -> Result<(), Problem> {
    let mut loaded = Some(artifact);
    let load = || {
        let loaded = loaded.take();
        async move {
            if let Some(artifact) = loaded {
                return check_again(app, artifact).await.map(Some);
            }
            match app.store.any_aggregate::<Artifact>(artifact.id()).await? {
                Some(artifact) => check_again(app, &artifact.value).await.map(Some),
                None => Ok(None),
            }
        }
    };
    record(app, load).await
}

/// Commits what `load` detects, if it is new.
async fn record<F: Future<Output = Result<Option<Detection>, Problem>>>(
    app: &App,
    load: impl FnMut() -> F,
) -> Result<(), Problem> {
    let decide = |detection: Option<Detection>, ctx: &mut DomainContext<'_>| {
        let Some(detection) = detection else { return Ok(Decision::Unchanged(())) };
        let mut commit = Commit::new();
        let raised = detection.record(app, &cause(), &mut commit, ctx)?;
        Ok(if raised.is_empty() { Decision::Unchanged(()) } else { Decision::Commit(commit, ()) })
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}

pub(super) const fn concerns(event: &SessionEvent) -> bool {
    proposes(event) || matches!(event, SessionEvent::InputReceived { decision_id: Some(_), .. })
}

const fn proposes(event: &SessionEvent) -> bool {
    matches!(event, SessionEvent::WaitingForInput { .. })
}

/// Compares the options that an agent has just recommended with those of other decisions about the same artifacts, and a choice that was
/// just made with the artifacts of the project.
pub(super) async fn react(app: &App, entry: &JournalEntry) -> Result<(), Problem> {
    let Some(membership) = &entry.project else { return Ok(()) };
    for event in &entry.events {
        if let SessionEvent::InputReceived { decision_id: Some(id), .. } = event {
            check_choice(app, (&entry.owner_id, membership.project_id), *id).await?;
        }
    }
    if entry.events.iter().any(proposes) {
        compare_recommendations(app, entry, membership).await?;
    }
    Ok(())
}

/// Layer 1 for a choice between options, if it is due. Its commit has stored the choice.
async fn check_choice(
    app: &App,
    (owner, project): (&UserId, ProjectId),
    id: DecisionId,
) -> Result<(), Problem> {
    let decision = app.store.decision_of(owner, id).await?;
    if decision.as_ref().and_then(ResolvedDecision::of).is_none() {
        return Ok(());
    }
    scan_after(app, project, tick_of(app, project).await?).await
}

async fn compare_recommendations(
    app: &App,
    entry: &JournalEntry,
    membership: &ProjectMembership,
) -> Result<(), Problem> {
    let Some(session) = app.store.session(entry.session_id).await? else { return Ok(()) };
    for open in session.open_decisions() {
        let Some((own, artifacts)) = recommendation(&open) else { continue };
        // Stored before the others are read: of two decisions that open at the same time, one finds the other.
        let mut commit = Commit::new();
        for artifact in &artifacts {
            commit.recommendation(membership.project_id, *artifact, &own)?;
        }
        app.store.commit(commit).await?;
        for artifact in artifacts {
            compare(app, (&entry.owner_id, membership.project_id), artifact, &own).await?;
        }
    }
    Ok(())
}

/// The recommendations of a decision, one for each artifact.
fn recommendation(decision: &decision::Decision) -> Option<(Recommendation, BTreeSet<ArtifactId>)> {
    let membership = decision.project.as_ref()?;
    let DecisionSubject::Option { question, options, assessment: Some(assessment), .. } = &decision.subject
    else {
        return None;
    };
    let recommended = assessment.recommended_option_id.as_ref()?;
    let option = options.iter().find(|option| option.id == *recommended)?;
    let artifacts = assessment.affected_artifact_ids.iter().filter_map(|id| id.parse().ok());
    let artifacts: BTreeSet<_> = artifacts.collect();
    if artifacts.is_empty() {
        return None;
    }
    let recommendation = Recommendation {
        decision_id: decision.id,
        agent_id: membership.agent_id,
        workstream: membership.workstream.clone(),
        question: question.clone(),
        option: option.option.label.clone(),
        proposed_at: decision.created_at,
    };
    Some((recommendation, artifacts))
}

async fn compare(
    app: &App,
    (owner, project): (&UserId, ProjectId),
    artifact: ArtifactId,
    own: &Recommendation,
) -> Result<(), Problem> {
    let others = app.store.recommendations(project, artifact, COMPARED).await?;
    let others = others.into_iter().filter(|other| other.agent_id != own.agent_id).map(|other| async {
        let decision = app.store.decision_of(owner, other.decision_id).await?;
        let is_open = decision.is_some_and(|decision| decision.state.ended_at().is_none());
        Ok::<_, Problem>(is_open.then_some(other))
    });
    let others: Vec<_> = try_join_all(others).await?.into_iter().flatten().collect();
    let Some(detected) = decision_conflict(project, artifact, own, &others) else { return Ok(()) };
    let tick = tick_of(app, project).await?;
    let load = async || Ok(Some(detection(app, (owner, project), tick, detected.clone()).await?));
    record(app, load).await
}

async fn detection(
    app: &App,
    place: (&UserId, ProjectId),
    tick: Tick,
    detected: Detected,
) -> Result<Detection, Problem> {
    Detection::load(app, place, tick, vec![detected]).await
}

async fn tick_of(app: &App, project: ProjectId) -> Result<Tick, Problem> {
    let time = app.project_time(project).await?.ok_or_else(Problem::no_project)?;
    Ok(time.tick(app.now())?)
}

pub(super) const fn concerns_of_issue(event: &CoherenceEvent) -> bool {
    matches!(
        event,
        CoherenceEvent::Confirmed { .. }
            | CoherenceEvent::Detected { .. }
            | CoherenceEvent::Reviewed { confirmed: true, .. }
            | CoherenceEvent::ReviewFailed { .. }
    )
}

/// Whether a model reviews the issues of a project.
async fn is_reviewed(app: &App, project: ProjectId) -> Result<bool, Problem> {
    if !app.integrations.has_model {
        return Ok(false);
    }
    let project = app.store.any_aggregate::<Project>(project).await?;
    Ok(project.is_some_and(|project| scan::is_reviewed(app, &project.value)))
}

/// Counts a confirmed issue for the agent that flagged it, and an issue that a person reported for the agents that wrote the artifacts.
/// Informs agents of issues.
pub(super) async fn react_of_issue(
    app: &App,
    entry: &AggregateJournalEntry<CoherenceEvent>,
    event: &CoherenceEvent,
) -> Result<(), Problem> {
    let id: CoherenceIssueId = entry.aggregate_id.parse().map_err(Problem::internal)?;
    let source = OutcomeSource::Coherence(id);
    match event {
        CoherenceEvent::Confirmed { source: IssueSource::Agent { agent_id, session_id }, .. } => {
            let reported = ReportedOutcome::new(TrustOutcome::CoherenceIssueConfirmed);
            trust::count_once(app, *agent_id, (*session_id, entry.id), source, reported).await
        }
        CoherenceEvent::Detected { source: IssueSource::Person { .. }, .. } => {
            let issue = app.store.any_aggregate::<CoherenceIssue>(id).await?;
            let Some(issue) = issue.map(|loaded| loaded.value) else { return Ok(()) };
            for agent_id in &issue.finding().affected_agent_ids {
                let Some(agent) = app.store.any_aggregate::<ProjectAgent>(*agent_id).await? else { continue };
                let cause = (agent.value.current_session_id(), entry.id);
                let reported = ReportedOutcome::new(TrustOutcome::CoherenceIssueMissed);
                trust::count_once(app, *agent_id, cause, source, reported).await?;
            }
            injections::coherence_issue(app, &issue).await
        }
        CoherenceEvent::Detected { source, severity, .. } => {
            let issue = app.store.any_aggregate::<CoherenceIssue>(id).await?;
            let Some(issue) = issue.map(|loaded| loaded.value) else { return Ok(()) };
            // Agents are informed when the model or a person confirms the issue, or when the review fails for good.
            if source.is_reviewable(*severity) && is_reviewed(app, issue.project_id()).await? {
                return Ok(());
            }
            injections::coherence_issue(app, &issue).await
        }
        CoherenceEvent::Reviewed { confirmed: true, .. } => inform_if(app, id, |_| true).await,
        CoherenceEvent::Confirmed { .. } => inform_if(app, id, CoherenceIssue::lacks_review).await,
        CoherenceEvent::ReviewFailed { .. } => {
            inform_if(app, id, |issue| issue.needs_review() && issue.has_given_up_review()).await
        }
        CoherenceEvent::Dismissed { .. }
        | CoherenceEvent::Resolved { .. }
        | CoherenceEvent::ReviewRequested { .. }
        | CoherenceEvent::Reviewed { .. } => Ok(()),
    }
}

/// Informs the agents of an issue whose current state meets the condition.
async fn inform_if(
    app: &App,
    id: CoherenceIssueId,
    condition: impl Fn(&CoherenceIssue) -> bool,
) -> Result<(), Problem> {
    let issue = app.store.any_aggregate::<CoherenceIssue>(id).await?.map(|loaded| loaded.value);
    match issue.filter(condition) {
        Some(issue) => injections::coherence_issue(app, &issue).await,
        None => Ok(()),
    }
}
