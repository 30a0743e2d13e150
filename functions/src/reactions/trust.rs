//! Changes the trust of agents (S2, "Trust score update rules"; decision 76): by the outcomes that the journals of their
//! sessions record, and when the configuration of their project changes.
//!
//! An outcome and the mark that it is counted are one commit, so that a repeated or late message changes nothing. The commit also opens
//! the decision about autonomy that the agent proposes, and ends it when the proposal is withdrawn.

use futures_util::future::join_all;
use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::ticks::ProjectTime;
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_domain::brake::{Brake, BrakeInitiator};
use pilothouse_domain::decision::{CancelReason, FreeDecision, decision_id};
use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::trust::{OutcomeSource, ReportedOutcome, TrustOutcome};
use pilothouse_domain::value::ProjectMembership;
use pilothouse_domain::{
    AgentSessionId, DecisionId, DomainContext, EventId, ProjectAgent, ProjectAgentEvent, ProjectAgentId,
    ProjectId, SessionChain, SessionEvent,
};
use pilothouse_store::{Commit, Loaded, LoadedAggregate};

/// The most agents that a reaction changes at the same time.
const CONCURRENT_AGENTS: usize = 16;

pub(super) const fn concerns(event: &SessionEvent) -> bool {
    matches!(
        event,
        SessionEvent::InputReceived { .. }
            | SessionEvent::OrphanResolved { .. }
            | SessionEvent::Approved { .. }
            | SessionEvent::Rejected { .. }
            | SessionEvent::Closed {}
            | SessionEvent::Failed { .. }
            | SessionEvent::Held { .. }
    )
}

/// Counts the outcomes of an event of a session in a project.
pub(super) async fn react(app: &App, entry: &JournalEntry, event: &SessionEvent) -> Result<(), Problem> {
    let Some(membership) = &entry.project else { return Ok(()) };
    let decided = match event {
        SessionEvent::InputReceived { decision_id, .. } => *decision_id,
        SessionEvent::OrphanResolved { decision_id } => Some(*decision_id),
        SessionEvent::Approved { output_id, .. } | SessionEvent::Rejected { output_id, .. } => {
            Some(decision_id(entry.session_id, None, &output_id.to_string()))
        }
        _ => None,
    };
    if let Some(id) = decided {
        count_decision(app, entry, membership, id).await?;
    }
    match event {
        SessionEvent::Approved { .. } | SessionEvent::Closed {} => {
            let session = app.store.session(entry.session_id).await?;
            match session.and_then(|session| session.last_outcome()) {
                Some(last) => count_end(app, entry, membership, TrustOutcome::of_completion(last)).await,
                None => Ok(()),
            }
        }
        SessionEvent::Failed { failure_reason, .. } => match TrustOutcome::of_failure(*failure_reason) {
            Some(outcome) => count_end(app, entry, membership, outcome).await,
            None => Ok(()),
        },
        SessionEvent::Held { brake_id, .. } => {
            // A brake of the system says nothing about the agent.
            let brake = app.store.any_aggregate::<Brake>(*brake_id).await?;
            if brake.is_some_and(|brake| brake.value.initiator() == BrakeInitiator::System) {
                return Ok(());
            }
            let reported = ReportedOutcome::new(TrustOutcome::HumanOverridesViaBrake);
            count(app, entry, membership, OutcomeSource::Brake(*brake_id), reported).await
        }
        _ => Ok(()),
    }
}

async fn count_decision(
    app: &App,
    entry: &JournalEntry,
    membership: &ProjectMembership,
    id: DecisionId,
) -> Result<(), Problem> {
    // A decision that is missing was over for longer than records are kept.
    let decision = app.store.decision_of(&entry.owner_id, id).await?;
    match decision.as_ref().and_then(ReportedOutcome::of_decision) {
        Some(reported) => count(app, entry, membership, OutcomeSource::Decision(id), reported).await,
        None => Ok(()),
    }
}

/// Counts the end of an objective.
async fn count_end(
    app: &App,
    entry: &JournalEntry,
    membership: &ProjectMembership,
    outcome: TrustOutcome,
) -> Result<(), Problem> {
    let first = first_session(app, entry.session_id).await?;
    count(app, entry, membership, OutcomeSource::Objective(first), ReportedOutcome::new(outcome)).await
}

/// The session that began the work which this session continues.
async fn first_session(app: &App, id: AgentSessionId) -> Result<AgentSessionId, Problem> {
    let session = app.store.session(id).await?;
    let Some(chain_id) = session.and_then(|session| session.chain_id()) else { return Ok(id) };
    let chain = app.store.any_aggregate::<SessionChain>(chain_id).await?;
    Ok(chain.and_then(|chain| chain.value.sessions().next().map(|first| first.session_id)).unwrap_or(id))
}

/// What the trust of an agent depends on.
struct TrustState {
    agent: LoadedAggregate<ProjectAgent>,
    time: ProjectTime,
    /// The decisions about autonomy that the agent proposes.
    proposals: Vec<Loaded<FreeDecision>>,
}

impl TrustState {
    /// The agent is read first. The configuration of the project is then at least as recent as the one that the agent follows.
    async fn load(app: &App, id: ProjectAgentId) -> Result<Option<Self>, Problem> {
        let Some(agent) = app.store.any_aggregate::<ProjectAgent>(id).await? else { return Ok(None) };
        let time = app.project_time(agent.value.project_id()).await?;
        let mut proposals = Vec::new();
        for id in agent.value.open_proposals() {
            proposals.extend(app.store.free_decision(id).await?);
        }
        Ok(time.map(|time| Self { agent, time, proposals }))
    }

    /// The commit that records `events`, with the decisions about what the agent proposes; `None` if there are no events.
    fn commit(
        &mut self,
        app: &App,
        events: Vec<ProjectAgentEvent>,
        ctx: &DomainContext<'_>,
    ) -> Result<Option<Commit>, Problem> {
        if events.is_empty() {
            return Ok(None);
        }
        let mut commit = Commit::new();
        let decisions = self.agent.value.decide_proposals(&events, ctx);
        for opened in decisions.opened {
            commit.free_decision(&Loaded::new(opened))?;
        }
        for proposal in &mut self.proposals {
            let is_withdrawn = decisions.withdrawn.contains(&proposal.value.decision().id);
            if is_withdrawn && proposal.value.cancel(CancelReason::ProposalWithdrawn, ctx.now).is_ok() {
                commit.free_decision(proposal)?;
            }
        }
        let cause = Cause::Reaction { function: "trust".to_owned() };
        app.record_aggregate(&mut commit, &self.agent, cause, events)?;
        Ok(Some(commit))
    }
}

async fn count(
    app: &App,
    entry: &JournalEntry,
    membership: &ProjectMembership,
    source: OutcomeSource,
    reported: ReportedOutcome,
) -> Result<(), Problem> {
    count_once(app, membership.agent_id, (entry.session_id, entry.id), source, reported).await
}

/// Changes the trust of an agent by an outcome, unless it was counted before. `cause` names the session of the outcome, and the journal
/// entry that records it.
pub(super) async fn count_once(
    app: &App,
    id: ProjectAgentId,
    cause: (AgentSessionId, EventId),
    source: OutcomeSource,
    reported: ReportedOutcome,
) -> Result<(), Problem> {
    let load = async || {
        if app.store.is_outcome_counted(id, source).await? {
            return Ok(None);
        }
        TrustState::load(app, id).await
    };
    let decide = |state: Option<TrustState>, ctx: &mut DomainContext<'_>| {
        let Some(mut state) = state else { return Ok(Decision::Unchanged(())) };
        let tick = state.time.tick(ctx.now)?;
        let calibration = &state.time.project.value.definition().trust;
        let events = state.agent.value.record_outcome(reported, cause, (tick, calibration), ctx);
        let mut commit = state.commit(app, events, ctx)?;
        if let Some(commit) = &mut commit {
            commit.count_outcome(id, source, cause.1, ctx.now)?;
        }
        Ok(commit.into())
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}

/// Passes the trust configuration of a project to its agents, several at a time. The failure of one does not keep the others from
/// receiving it.
pub(super) async fn configure(app: &App, id: ProjectId) -> Result<(), Problem> {
    let Some(time) = app.project_time(id).await? else { return Ok(()) };
    let agents: Vec<_> = time.project.value.agents().keys().copied().collect();
    let mut outcome = Ok(());
    for some in agents.chunks(CONCURRENT_AGENTS) {
        for configured in join_all(some.iter().map(|agent| configure_agent(app, *agent))).await {
            outcome = outcome.and(configured);
        }
    }
    outcome
}

async fn configure_agent(app: &App, id: ProjectAgentId) -> Result<(), Problem> {
    let load = async || TrustState::load(app, id).await;
    let decide = |state: Option<TrustState>, ctx: &mut DomainContext<'_>| {
        let Some(mut state) = state else { return Ok(Decision::Unchanged(())) };
        let tick = state.time.tick(ctx.now)?;
        let events =
            state.agent.value.configure_trust(&state.time.project.value.definition().trust, tick, ctx);
        Ok(state.commit(app, events, ctx)?.into())
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}
