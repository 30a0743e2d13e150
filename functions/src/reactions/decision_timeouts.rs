//! Sets the deadlines of open requests when the ticks of their project change their rate, and applies the policies of requests whose
//! due tick a manual advance reached (decision 77). Each session changes in a transaction of its own. Timeouts that leave a decision open
//! get their entry in the decision log here; the commits that end a decision write theirs.

use futures_util::future::join_all;
use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_domain::decision::{DecisionLogEntry, LoggedDecision, TimeoutEffect};
use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::tick::TickReading;
use pilothouse_domain::value::ProjectMembership;
use pilothouse_domain::{
    AgentSessionId, DomainContext, ProjectAgent, ProjectAgentId, ProjectEvent, ProjectId, SessionEvent,
};
use pilothouse_store::{Commit, LoadedConversation};

/// The most agents whose sessions a reaction changes at the same time.
const CONCURRENT_AGENTS: usize = 16;

/// A timeout fired, or a request without an estimated time opened: the ticks may have been advanced before its commit, when the advance
/// did not see it.
pub(super) const fn concerns(event: &SessionEvent) -> bool {
    matches!(
        event,
        SessionEvent::RequestTimedOut { .. }
            | SessionEvent::WaitingForInput { expires_at: None, .. }
            | SessionEvent::PlanPendingApproval { requires_approval: true, .. }
    )
}

pub(super) const fn concerns_project(event: &ProjectEvent) -> bool {
    matches!(event, ProjectEvent::Updated {} | ProjectEvent::TicksAdvanced { .. })
}

const fn opens_without_estimate(event: &SessionEvent) -> bool {
    concerns(event) && !matches!(event, SessionEvent::RequestTimedOut { .. })
}

/// Logs what timeouts did. Writing an entry again replaces it.
async fn log_timeouts(
    app: &App,
    entry: &JournalEntry,
    membership: &ProjectMembership,
) -> Result<(), Problem> {
    let mut commit = Commit::new();
    for event in &entry.events {
        let SessionEvent::RequestTimedOut { decision_id, kind, timeout, severity, extensions, .. } = event
        else {
            continue;
        };
        if !matches!(timeout.effect, TimeoutEffect::Escalated | TimeoutEffect::Extended) {
            continue;
        }
        commit.log_decision(&DecisionLogEntry {
            owner_id: entry.owner_id.clone(),
            project_id: membership.project_id,
            agent_id: Some(membership.agent_id),
            session_id: Some(entry.session_id),
            at: timeout.at,
            logged: LoggedDecision::Timeout {
                decision_id: *decision_id,
                kind: *kind,
                timeout: *timeout,
                severity: *severity,
                extensions: *extensions,
            },
        })?;
    }
    Ok(app.store.commit(commit).await?)
}

/// Reads the ticks again after a request opened.
pub(super) async fn react(app: &App, entry: &JournalEntry) -> Result<(), Problem> {
    let Some(membership) = &entry.project else { return Ok(()) };
    log_timeouts(app, entry, membership).await?;
    if !entry.events.iter().any(opens_without_estimate) {
        return Ok(());
    }
    let Some(session) = app.store.session(entry.session_id).await? else { return Ok(()) };
    match app.ticks_of(&session).await? {
        Some(ticks) => follow(app, entry.session_id, ticks).await,
        None => Ok(()),
    }
}

/// Lets the open requests of all agents follow the ticks. The failure of one session does not keep the others from being changed.
pub(super) async fn react_of_project(app: &App, id: ProjectId) -> Result<(), Problem> {
    let Some(time) = app.project_time(id).await? else { return Ok(()) };
    let now = app.now();
    let clock = time.clock(now)?;
    let agents: Vec<_> = time.project.value.agents().keys().copied().collect();
    let mut outcome = Ok(());
    for some in agents.chunks(CONCURRENT_AGENTS) {
        let changes: Vec<_> =
            some.iter().map(|agent| follow_agent(app, *agent, clock.read_for(*agent, now))).collect();
        for changed in join_all(changes).await {
            outcome = outcome.and(changed);
        }
    }
    outcome
}

async fn follow_agent(app: &App, agent: ProjectAgentId, ticks: TickReading) -> Result<(), Problem> {
    match app.store.any_aggregate::<ProjectAgent>(agent).await? {
        Some(agent) => follow(app, agent.value.current_session_id(), ticks).await,
        None => Ok(()),
    }
}

async fn follow(app: &App, session: AgentSessionId, ticks: TickReading) -> Result<(), Problem> {
    let load = async || Ok(app.store.conversation(session).await?);
    let decide = |loaded: Option<LoadedConversation>, ctx: &mut DomainContext<'_>| {
        let Some(mut loaded) = loaded else { return Ok(Decision::Unchanged(())) };
        let Some(events) = loaded.conversation.follow_ticks(ticks, ctx)? else {
            return Ok(Decision::Unchanged(()));
        };
        let events = app.with_consequences(&mut loaded.conversation, events, ctx);
        let mut commit = Commit::new();
        app.record(&mut commit, &mut loaded, Cause::Reaction { function: "ticks".to_owned() }, events)?;
        Ok(Decision::Commit(commit, ()))
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}
