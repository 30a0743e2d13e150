//! Builds the snapshot of an agent (S2 `KnowledgeSnapshot`) from the agents in its scope with their sessions, and the latest artifacts of
//! each readable workstream. It reads indexes, and scans nothing.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_domain::artifact::ArtifactSummary;
use pilothouse_domain::decision;
use pilothouse_domain::knowledge::{
    AgentSummary, ArtifactIndexEntry, CoherenceIssueSummary, DecisionSummary, KnowledgeSnapshot,
    ProjectKnowledge, TokenBudget, WorkstreamStatus, WorkstreamSummary,
};
use pilothouse_domain::project::{AgentStatus, Workstream};
use pilothouse_domain::session::AgentSession;
use pilothouse_domain::value::KnowledgeScope;
use pilothouse_domain::{DomainContext, Project, ProjectAgent, ProjectAgentId};
use pilothouse_store::{ArtifactList, Commit, IssueList, Loaded, SnapshotMark};

/// The latest artifacts of each workstream that are read.
const ARTIFACTS: usize = 100;
/// The latest open coherence issues that are read.
const ISSUES: usize = 20;
/// The most agents that are read at the same time.
const CONCURRENT_AGENTS: usize = 16;

/// An agent with its current session.
pub(crate) type AgentInScope = (ProjectAgent, AgentSession);

/// The snapshot of `agent` with its version, from the agents in its scope. Equal content has no new version.
pub(crate) async fn snapshot_of(
    app: &App,
    project: &Project,
    agent: &ProjectAgent,
    agents: &[AgentInScope],
    budget: TokenBudget,
) -> Result<KnowledgeSnapshot, Problem> {
    let scope = agent.brief().knowledge_scope();
    let knowledge = knowledge_of(app, project, &scope, agents).await?;
    let snapshot = KnowledgeSnapshot::build(agent.id(), &scope, knowledge, budget, app.now());
    let version = version_of(app, agent.id(), snapshot.content_hash()).await?;
    Ok(snapshot.with_version(version))
}

/// How much the other agents in the scope of `agent` have done: the sum of the sequences of their journals.
pub(crate) fn position_of(agent: &ProjectAgent, agents: &[AgentInScope]) -> u64 {
    let others = agents.iter().filter(|(other, _)| other.id() != agent.id());
    others.map(|(_, session)| session.journal_sequence()).sum()
}

async fn version_of(app: &App, agent: ProjectAgentId, content_hash: String) -> Result<u64, Problem> {
    let load = async || Ok::<_, Problem>(app.store.snapshot_mark(agent).await?);
    let decide = |mut mark: Loaded<SnapshotMark>, _: &mut DomainContext<'_>| {
        if mark.value.content_hash == content_hash {
            return Ok(Decision::Unchanged(mark.value.version));
        }
        mark.value = SnapshotMark { version: mark.value.version + 1, content_hash: content_hash.clone() };
        let mut commit = Commit::new();
        commit.snapshot_mark(agent, &mark)?;
        Ok::<_, Problem>(Decision::Commit(commit, mark.value.version))
    };
    app.unit_of_work().run(RetryPolicy::COMMAND, load, decide).await
}

async fn knowledge_of(
    app: &App,
    project: &Project,
    scope: &KnowledgeScope,
    agents: &[AgentInScope],
) -> Result<ProjectKnowledge, Problem> {
    let lists = scope.readable().map(|workstream| {
        let list = ArtifactList::Workstream(workstream.clone());
        async move { app.store.artifacts_in(project.id(), &list, ARTIFACTS, None).await }
    });
    let listings = try_join_all(lists).await?;
    let mut artifacts: Vec<_> = listings.into_iter().flat_map(|listing| listing.items).collect();
    artifacts.sort_by_key(|artifact| (Reverse(artifact.updated_at), artifact.id));
    let mut open: Vec<decision::Decision> =
        agents.iter().flat_map(|(_, session)| session.open_decisions()).collect();
    open.sort_by_key(|decision| (Reverse(decision.rank()), decision.created_at, decision.id));
    let pending: Vec<_> = open.iter().filter_map(DecisionSummary::of).collect();
    let tally = app.store.artifact_tally(project.id()).await?.value;
    let place = (project.owner_id(), project.id());
    let issues = app.store.coherence_issues(place.0, place.1, IssueList::Open, ISSUES, None).await?;
    let mut workstreams = Vec::new();
    for workstream in project.definition().workstreams.iter().filter(|it| scope.may_read(&it.id)) {
        let count = tally.of(&workstream.id);
        workstreams.push(workstream_summary(workstream, count, agents, &pending, &artifacts));
    }
    Ok(ProjectKnowledge {
        workstreams,
        pending_decisions: pending,
        recent_coherence_issues: issues.items.iter().map(|it| CoherenceIssueSummary::of(it, scope)).collect(),
        artifacts: artifacts.iter().map(ArtifactIndexEntry::from).collect(),
        agents: agents.iter().map(|(agent, session)| agent_summary(agent, session)).collect(),
    })
}

/// The agents in the scope of `agent` with their current sessions, oldest first.
pub(crate) async fn agents_in_scope(
    app: &App,
    project: &Project,
    agent: &ProjectAgent,
) -> Result<Vec<AgentInScope>, Problem> {
    let scope = agent.brief().knowledge_scope();
    let readable = project.agents().iter().filter(|(_, workstream)| scope.may_read(workstream));
    let ids: Vec<_> = readable.map(|(id, _)| *id).collect();
    let mut agents = Vec::with_capacity(ids.len());
    for some in ids.chunks(CONCURRENT_AGENTS) {
        agents
            .extend(try_join_all(some.iter().map(|id| with_session(app, *id))).await?.into_iter().flatten());
    }
    Ok(agents)
}

async fn with_session(app: &App, id: ProjectAgentId) -> Result<Option<AgentInScope>, Problem> {
    let Some(agent) = app.store.any_aggregate::<ProjectAgent>(id).await? else { return Ok(None) };
    let session = app.store.session(agent.value.current_session_id()).await?;
    Ok(session.map(|session| (agent.value, session)))
}

fn agent_summary(agent: &ProjectAgent, session: &AgentSession) -> AgentSummary {
    AgentSummary {
        id: agent.id(),
        role: agent.brief().role.clone(),
        workstream: agent.brief().workstream.clone(),
        status: AgentStatus::of(session),
        plugin_name: Some(session.settings().adapter.clone()),
        model_preference: agent.brief().model_preference.clone(),
    }
}

fn workstream_summary(
    workstream: &Workstream,
    artifact_count: u64,
    agents: &[AgentInScope],
    pending: &[DecisionSummary],
    artifacts: &[ArtifactSummary],
) -> WorkstreamSummary {
    let own = agents.iter().filter(|(agent, _)| agent.brief().workstream == workstream.id);
    let statuses: BTreeMap<_, _> =
        own.map(|(agent, session)| (agent.id(), AgentStatus::of(session))).collect();
    let has = |status| statuses.values().any(|other| *other == status);
    let status = if has(AgentStatus::Running) {
        WorkstreamStatus::Active
    } else if has(AgentStatus::WaitingOnHuman) {
        WorkstreamStatus::Waiting
    } else {
        WorkstreamStatus::Idle
    };
    let latest = artifacts.iter().find(|artifact| artifact.workstream == workstream.id);
    let latest = latest.map(|it| format!("Last: {}, version {}, {}.", it.name, it.version, it.state));
    WorkstreamSummary {
        id: workstream.id.clone(),
        name: workstream.name.clone(),
        status,
        active_agent_ids: statuses.iter().filter(|(_, it)| it.advances_ticks()).map(|(id, _)| *id).collect(),
        artifact_count,
        pending_decision_count: pending.iter().filter(|it| it.workstream == workstream.id).count(),
        recent_activity: latest.unwrap_or_default(),
    }
}
