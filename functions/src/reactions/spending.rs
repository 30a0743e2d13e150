//! Draws slices of a project's spending cap for its agents, and brakes the project when nothing is left (decision 78).
//!
//! No commit of a session writes the account. The reaction compares the spend that a session records with what its agent has drawn, so
//! that a repeated or late message changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::try_join_all;
use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_domain::brake::{
    Brake, BrakeBehavior, BrakeInitiator, BrakeScope, NewBrake, ReleaseCondition,
};
use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::project_account::{AgentSpend, ProjectAccount};
use pilothouse_domain::value::ProjectMembership;
use pilothouse_domain::{
    AgentSession, AgentSessionId, DomainContext, Project, ProjectAccountEvent, ProjectAgent, ProjectAgentId,
    ProjectId, SessionEvent,
};
use pilothouse_store::{Commit, LineScope, LoadedAggregate, LoadedPool};

use crate::loading::load_sessions;

/// The most agents whose sessions a reaction reads at the same time.
const CONCURRENT_AGENTS: usize = 16;

pub(super) const fn concerns(event: &SessionEvent) -> bool {
    matches!(
        event,
        SessionEvent::MetricsUpdated { .. }
            | SessionEvent::ChainSpendCounted { .. }
            | SessionEvent::Approved { .. }
            | SessionEvent::Closed {}
            | SessionEvent::Cancelled {}
            | SessionEvent::Failed { .. }
    )
}

/// What the account of a project depends on.
struct SpendingState {
    account: LoadedAggregate<ProjectAccount>,
    project: Project,
    spends: Vec<AgentSpend>,
    /// What a brake needs, if a slice will be refused.
    guard: Option<BrakeGuard>,
}

/// The pool of the owner, with the agents of sessions whose leases do not name them.
struct BrakeGuard {
    pool: LoadedPool,
    agents: BTreeMap<AgentSessionId, ProjectMembership>,
}

/// Settles the spend of the agent that an entry is about. An agent of a project that never had a cap costs one read.
pub(super) async fn react(app: &App, entry: &JournalEntry) -> Result<(), Problem> {
    let Some(membership) = entry.project.as_ref().filter(|_| entry.events.iter().any(concerns)) else {
        return Ok(());
    };
    let project_id = membership.project_id;
    // The account is read first. If the session changes after its own read, the reaction to that change writes the account, and this
    // commit fails.
    let load = async || {
        let Some(account) = app.store.any_aggregate::<ProjectAccount>(project_id).await? else {
            return Ok(None);
        };
        let session = app.store.session(entry.session_id).await?;
        let spend = session.map(|session| AgentSpend::of(membership.agent_id, &session));
        match spend.filter(|spend| account.value.concerns(spend)) {
            Some(spend) => SpendingState::load(app, project_id, account, vec![spend]).await,
            None => Ok(None),
        }
    };
    settle(app, load).await
}

/// Passes the spending cap of a project to its account, and draws for all agents. A project without a cap needs no account.
pub(super) async fn configure(app: &App, id: ProjectId) -> Result<(), Problem> {
    // The account is read first, so that no commit restores an earlier cap.
    let load = async || {
        let account = app.store.any_aggregate::<ProjectAccount>(id).await?;
        let Some(project) = app.store.any_aggregate::<Project>(id).await? else { return Ok(None) };
        let (project, cap) = (project.value.clone(), project.value.definition().spending_cap);
        let mut account = match account {
            None if cap.is_none() => return Ok(None),
            None => LoadedAggregate::new(ProjectAccount::open(project.id(), project.owner_id().clone())),
            Some(account) => account,
        };
        if account.value.cap() == cap {
            return Ok(None);
        }
        // Its warning is not recorded: the settlement warns under the new cap.
        account.value.count_reviews(app.store.review_ledger(id).await?.value.spent_usd(), &project);
        let spends = if cap.is_some() { spends_of(app, &project).await? } else { Vec::new() };
        SpendingState::load(app, id, account, spends).await
    };
    settle(app, load).await
}

/// The spend of all agents of a project.
async fn spends_of(app: &App, project: &Project) -> Result<Vec<AgentSpend>, Problem> {
    let agents: Vec<_> = project.agents().keys().copied().collect();
    let mut spends = Vec::with_capacity(agents.len());
    for some in agents.chunks(CONCURRENT_AGENTS) {
        let some = try_join_all(some.iter().map(|agent| spend_of(app, *agent))).await?;
        spends.extend(some.into_iter().flatten());
    }
    Ok(spends)
}

async fn spend_of(app: &App, id: ProjectAgentId) -> Result<Option<AgentSpend>, Problem> {
    let Some(agent) = app.store.any_aggregate::<ProjectAgent>(id).await? else { return Ok(None) };
    let session = app.store.session(agent.value.current_session_id()).await?;
    Ok(session.map(|session| AgentSpend::of(id, &session)))
}

impl SpendingState {
    async fn load(
        app: &App,
        id: ProjectId,
        account: LoadedAggregate<ProjectAccount>,
        spends: Vec<AgentSpend>,
    ) -> Result<Option<Self>, Problem> {
        let Some(project) = app.store.any_aggregate::<Project>(id).await? else { return Ok(None) };
        let mut state = Self { account, project: project.value, spends, guard: None };
        if state.will_be_refused() {
            state.guard = Some(BrakeGuard::load(app, &state.project).await?);
        }
        Ok(Some(state))
    }

    fn will_be_refused(&self) -> bool {
        let mut account = self.account.value.clone();
        account.set_cap(self.project.definition().spending_cap);
        account.settle(&self.spends, &self.project).is_refused
    }
}

impl BrakeGuard {
    async fn load(app: &App, project: &Project) -> Result<Self, Problem> {
        let pool = app.store.pool_with(project.owner_id(), LineScope::Nothing).await?;
        let sessions = load_sessions(app, &pool.value.unknown_holders()).await?;
        let membership = |session: &Arc<AgentSession>| Some((session.id(), session.project()?.clone()));
        Ok(Self { pool, agents: sessions.iter().filter_map(membership).collect() })
    }
}

async fn settle<F: Future<Output = Result<Option<SpendingState>, Problem>>>(
    app: &App,
    load: impl FnMut() -> F,
) -> Result<(), Problem> {
    let decide = |state: Option<SpendingState>, ctx: &mut DomainContext<'_>| {
        let Some(SpendingState { mut account, project, spends, guard }) = state else {
            return Ok(Decision::Unchanged(()));
        };
        let mut events = account.value.set_cap(project.definition().spending_cap);
        let settlement = account.value.settle(&spends, &project);
        events.extend(settlement.events);
        let mut commit = Commit::new();
        if let Some(guard) = guard.filter(|_| settlement.is_refused) {
            events.extend(brake(app, &mut commit, &mut account.value, &project, guard, ctx)?);
        }
        if events.is_empty() {
            return Ok(Decision::Unchanged(()));
        }
        app.record_aggregate(&mut commit, &account, cause(), events)?;
        Ok(Decision::Commit(commit, ()))
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}

/// Pulls the brake of the cap, unless it is in force.
fn brake(
    app: &App,
    commit: &mut Commit,
    account: &mut ProjectAccount,
    project: &Project,
    BrakeGuard { mut pool, agents }: BrakeGuard,
    ctx: &mut DomainContext<'_>,
) -> Result<Vec<ProjectAccountEvent>, Problem> {
    let in_force = pool.value.brakes().iter().any(|brake| Some(brake.id) == account.brake_id());
    let Some(reason) = account.brake_reason().filter(|_| !in_force) else { return Ok(Vec::new()) };
    let new = NewBrake {
        id: ctx.brake_id(),
        owner_id: project.owner_id().clone(),
        initiator: BrakeInitiator::System,
        scope: BrakeScope::Project { project_id: project.id() },
        behavior: BrakeBehavior::Pause,
        reason,
        release: ReleaseCondition::Manual {},
        agents,
    };
    let (brake, pulled) = Brake::pull(new, &mut pool.value, ctx.now)?;
    let events = account.brake(brake.id(), project);
    app.record_aggregate(commit, &LoadedAggregate::new(brake), cause(), pulled)?;
    commit.pool(project.owner_id(), &pool)?;
    Ok(events)
}

fn cause() -> Cause {
    Cause::Reaction { function: "spending".to_owned() }
}
