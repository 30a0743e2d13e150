//! Injects changes of a project into the context of its working agents (S2, "`ContextInjection` timing policy"; decision 89).
//!
//! | module | contents |
//! |---|---|
//! | `inject` | decides on the injection of one agent, and commits it with the agent's session |
//!
//! A reaction decides on the current state. An agent that has the same knowledge already, or will receive it, gets no second injection,
//! so that a repeated message changes nothing.

mod inject;

use futures_util::future::join_all;
use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_domain::artifact::{Artifact, ArtifactAuthor};
use pilothouse_domain::coherence::{CoherenceIssue, IssueSource};
use pilothouse_domain::injection::{InjectionLedger, InjectionReason};
use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::text::WorkstreamId;
use pilothouse_domain::value::{MessageSource, ProjectMembership};
use pilothouse_domain::{
    ArtifactId, DomainContext, MessageId, Project, ProjectAgent, ProjectAgentEvent, ProjectAgentId,
    ProjectEvent, ProjectId, SessionEvent,
};
use pilothouse_store::{Commit, Loaded, LoadedAggregate};

pub use inject::inject_due;
use inject::{Trigger, inject, start_checks};

/// The most agents that a reaction considers at the same time.
const CONCURRENT_AGENTS: usize = 16;
/// An injection that was replaced is not lost.
const SUPERSEDED: &str = "superseded";

pub(super) const fn concerns(event: &SessionEvent) -> bool {
    use SessionEvent as E;
    matches!(
        event,
        E::TurnStarted { .. }
            | E::HoldReleased { .. }
            | E::MessageDelivered { source: MessageSource::ContextInjection, .. }
            | E::MessageCancelled { reason: Some(_), .. }
    ) || resolves_decision(event)
        || completes(event)
}

const fn resolves_decision(event: &SessionEvent) -> bool {
    use SessionEvent as E;
    matches!(
        event,
        E::InputReceived { .. }
            | E::PlanApproved { .. }
            | E::PlanRejected { .. }
            | E::OrphanResolved { .. }
            | E::Approved { .. }
            | E::Rejected { .. }
    )
}

/// Whether the event completes the work of an agent.
const fn completes(event: &SessionEvent) -> bool {
    matches!(event, SessionEvent::Approved { .. } | SessionEvent::Closed {})
}

pub(super) const fn concerns_of_agent(event: &ProjectAgentEvent) -> bool {
    matches!(event, ProjectAgentEvent::BriefUpdated { .. })
}

/// Reacts to an entry of a session in a project.
pub(super) async fn react(app: &App, entry: &JournalEntry) -> Result<(), Problem> {
    let Some(membership) = &entry.project else { return Ok(()) };
    let agent = membership.agent_id;
    let mut outcome = Ok(());
    for event in &entry.events {
        let done = match event {
            SessionEvent::TurnStarted { .. } => start_checks(app, agent).await,
            SessionEvent::HoldReleased { .. } => {
                inject(app, agent, Trigger::Event(&InjectionReason::BrakeReleased {})).await
            }
            SessionEvent::MessageDelivered {
                source: MessageSource::ContextInjection, message_id, ..
            } => delivered(app, agent, *message_id).await,
            SessionEvent::MessageCancelled { message_id, reason: Some(reason) } if reason != SUPERSEDED => {
                lost(app, agent, *message_id).await
            }
            _ => Ok(()),
        };
        outcome = outcome.and(done);
    }
    let is_resolved = entry.events.iter().any(resolves_decision);
    let is_completed = entry.events.iter().any(completes);
    if is_resolved || is_completed {
        outcome = outcome.and(inform_others(app, membership, is_resolved, is_completed).await);
    }
    outcome
}

/// Informs the other agents that may read the workstream of an agent of a decision about it, and of the completion of its work. The
/// approval of an output is both.
async fn inform_others(
    app: &App,
    membership: &ProjectMembership,
    is_resolved: bool,
    is_completed: bool,
) -> Result<(), Problem> {
    let readers = Readers::load(app, membership.project_id, Some(membership.agent_id)).await?;
    let Some(readers) = readers else { return Ok(()) };
    let workstream = &membership.workstream;
    let mut reasons = Vec::new();
    if is_resolved {
        reasons.push((workstream, InjectionReason::DecisionResolved { workstream: workstream.clone() }));
    }
    if is_completed && let Some(agent) = app.store.any_aggregate::<ProjectAgent>(membership.agent_id).await? {
        let (role, workstream_id) = (agent.value.brief().role.clone(), workstream.clone());
        reasons.push((workstream, InjectionReason::AgentCompleted { role, workstream: workstream_id }));
    }
    readers.inject(app, &reasons).await
}

/// Informs the agents that may read an affected workstream, except the agent that flagged the issue.
pub(super) async fn coherence_issue(app: &App, issue: &CoherenceIssue) -> Result<(), Problem> {
    let finding = issue.finding();
    let reporter = match &finding.source {
        IssueSource::Agent { agent_id, .. } => Some(*agent_id),
        IssueSource::Structural { .. }
        | IssueSource::Similarity { .. }
        | IssueSource::Alignment { .. }
        | IssueSource::Person { .. } => None,
    };
    let Some(readers) = Readers::load(app, issue.project_id(), reporter).await? else { return Ok(()) };
    let reasons = finding.affected_workstreams.iter().map(|workstream| {
        let (severity, category) = (finding.severity, finding.category);
        let reason = InjectionReason::CoherenceIssue { severity, category, workstream: workstream.clone() };
        (workstream, reason)
    });
    let reasons: Vec<_> = reasons.collect();
    readers.inject(app, &reasons).await
}

/// Informs all agents that may read a new version of an artifact, except its author.
pub(super) async fn artifact_changed(
    app: &App,
    artifact: &Artifact,
    (version, author): (u32, &ArtifactAuthor),
) -> Result<(), Problem> {
    let readers = Readers::load(app, artifact.project_id(), author.agent()).await?;
    let Some(readers) = readers else { return Ok(()) };
    let (name, workstream) = (artifact.name().clone(), artifact.workstream().clone());
    let reason = InjectionReason::ArtifactChanged { name, version, workstream };
    readers.inject(app, &[(artifact.workstream(), reason)]).await
}

/// Informs all agents that may read an approved version of an artifact, except its author.
pub(super) async fn artifact_approved(
    app: &App,
    (id, project): (ArtifactId, ProjectId),
    (version, author): (u32, &ArtifactAuthor),
) -> Result<(), Problem> {
    let Some(readers) = Readers::load(app, project, author.agent()).await? else { return Ok(()) };
    let Some(artifact) = app.store.any_aggregate::<Artifact>(id).await?.map(|loaded| loaded.value) else {
        return Ok(());
    };
    let (name, workstream) = (artifact.name().clone(), artifact.workstream().clone());
    let reason = InjectionReason::ArtifactApproved { name, version, workstream };
    readers.inject(app, &[(artifact.workstream(), reason)]).await
}

pub(super) const fn concerns_of_project(event: &ProjectEvent) -> bool {
    matches!(event, ProjectEvent::Updated {})
}

/// Reacts to a change of a project: its brief is part of the briefs of its agents.
pub(super) async fn react_of_project(app: &App, id: ProjectId) -> Result<(), Problem> {
    let Some(project) = app.store.any_aggregate::<Project>(id).await? else { return Ok(()) };
    let Some(changed) = project.value.brief_changed_at() else { return Ok(()) };
    let agents: Vec<_> = project.value.agents().keys().copied().collect();
    each(app, &agents, Trigger::ProjectBriefChanged(changed)).await
}

/// Reacts to a change of an agent's brief.
pub(super) async fn react_of_agent(app: &App, id: ProjectAgentId) -> Result<(), Problem> {
    inject(app, id, Trigger::Event(&InjectionReason::BriefChanged {})).await
}

/// The agents of a project that an event may concern.
struct Readers {
    project: Project,
    agents: Vec<ProjectAgentId>,
}

impl Readers {
    /// All agents except the one that caused the event; `None` if there are no others.
    async fn load(app: &App, id: ProjectId, except: Option<ProjectAgentId>) -> Result<Option<Self>, Problem> {
        let Some(project) = app.store.any_aggregate::<Project>(id).await? else { return Ok(None) };
        let project = project.value;
        let others = project.agents().keys().copied().filter(|agent| Some(*agent) != except);
        let agents: Vec<_> = others.collect();
        Ok((!agents.is_empty()).then_some(Self { project, agents }))
    }

    /// Informs each agent of the events in workstreams that it may read.
    async fn inject(&self, app: &App, reasons: &[(&WorkstreamId, InjectionReason)]) -> Result<(), Problem> {
        each(app, &self.agents, Trigger::InWorkstreams { project: &self.project, reasons }).await
    }
}

/// Considers agents, several at a time. The failure of one does not keep the others from being considered.
async fn each(app: &App, agents: &[ProjectAgentId], trigger: Trigger<'_>) -> Result<(), Problem> {
    let mut outcome = Ok(());
    for some in agents.chunks(CONCURRENT_AGENTS) {
        let considerations: Vec<_> = some.iter().map(|agent| inject(app, *agent, trigger)).collect();
        for considered in join_all(considerations).await {
            outcome = outcome.and(considered);
        }
    }
    outcome
}

/// Counts an injection that the agent received, once.
async fn delivered(app: &App, id: ProjectAgentId, message: MessageId) -> Result<(), Problem> {
    type State = Option<(Loaded<InjectionLedger>, LoadedAggregate<ProjectAgent>)>;

    let load = async || {
        let ledger = app.store.injection_ledger(id).await?;
        let agent = app.store.any_aggregate::<ProjectAgent>(id).await?;
        Ok::<_, Problem>(agent.map(|agent| (ledger, agent)))
    };
    let decide = |state: State, ctx: &mut DomainContext<'_>| {
        let Some((mut ledger, mut agent)) = state else { return Ok(Decision::Unchanged(())) };
        let Some(delivered) = ledger.value.record_delivered(message, ctx.now) else {
            return Ok(Decision::Unchanged(()));
        };
        let events = agent.value.context_injected(delivered, ctx);
        let mut commit = Commit::new();
        commit.injection_ledger(id, &ledger)?;
        app.record_aggregate(&mut commit, &agent, cause(), events)?;
        Ok(Decision::Commit(commit, ()))
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}

/// Records that an injection did not reach the agent, or may not have.
async fn lost(app: &App, id: ProjectAgentId, message: MessageId) -> Result<(), Problem> {
    let load = async || Ok::<_, Problem>(app.store.injection_ledger(id).await?);
    let decide = |mut ledger: Loaded<InjectionLedger>, _: &mut DomainContext<'_>| {
        if !ledger.value.record_lost(message) {
            return Ok(Decision::Unchanged(()));
        }
        let mut commit = Commit::new();
        commit.injection_ledger(id, &ledger)?;
        Ok(Decision::Commit(commit, ()))
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}

fn cause() -> Cause {
    Cause::Reaction { function: "inject-context".to_owned() }
}
