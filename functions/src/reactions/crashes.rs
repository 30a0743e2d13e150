//! Opens a decision when an agent of a project crashes, leaves its recovery to a person when the agents of the project are killed, and
//! ends the decision when the session is retried in another way (S2, "Crash recovery"; decision 81). The counters are those of the agent;
//! an attempt of a session crashes once, so that a repeated message changes nothing.

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::ticks::ProjectTime;
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_domain::decision::{CancelReason, FreeDecision};
use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::{
    AgentSession, AgentSessionId, DomainContext, ProjectAgent, ProjectAgentId, SessionEvent,
};
use pilothouse_store::{Commit, Loaded, LoadedAggregate};

pub(super) const fn concerns(event: &SessionEvent) -> bool {
    match event {
        SessionEvent::Failed { failure_reason, .. } => failure_reason.is_crash(),
        SessionEvent::Retried { .. } => true,
        _ => false,
    }
}

pub(super) async fn react(app: &App, entry: &JournalEntry, event: &SessionEvent) -> Result<(), Problem> {
    let Some(membership) = entry.project.as_ref().filter(|_| concerns(event)) else { return Ok(()) };
    match event {
        SessionEvent::Retried { retry_count, .. } => {
            end(app, membership.agent_id, (entry.session_id, *retry_count)).await
        }
        _ => open(app, membership.agent_id, entry.session_id).await,
    }
}

/// What a crash depends on. The agent is read first: a session that continues afterwards ends the decision by its own entry.
struct CrashState {
    agent: LoadedAggregate<ProjectAgent>,
    time: ProjectTime,
    session: AgentSession,
}

async fn open(app: &App, agent: ProjectAgentId, session: AgentSessionId) -> Result<(), Problem> {
    let load = async || {
        let Some(agent) = app.store.any_aggregate::<ProjectAgent>(agent).await? else { return Ok(None) };
        let time = app.project_time(agent.value.project_id()).await?;
        let session = app.store.session(session).await?;
        Ok(time.zip(session).map(|(time, session)| CrashState { agent, time, session }))
    };
    let decide = |state: Option<CrashState>, ctx: &mut DomainContext<'_>| {
        let Some(CrashState { mut agent, time, session }) = state else { return Ok(Decision::Unchanged(())) };
        let project = &time.project.value;
        let (tick, calibration) = (time.tick(ctx.now)?, &project.definition().trust);
        let trust = agent.value.trust_under(calibration, tick).score(tick, calibration);
        let policy = project.crash_recovery(agent.value.brief().crash_recovery);
        let automatic = |crash| policy.automatic(crash, trust, ctx.now);
        let Some((decision, events)) = agent.value.record_crash(&session, automatic, ctx) else {
            return Ok(Decision::Unchanged(()));
        };
        let mut commit = Commit::new();
        app.record_aggregate(&mut commit, &agent, cause(), events)?;
        commit.free_decision(&Loaded::new(decision))?;
        Ok(Decision::Commit(commit, ()))
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}

async fn end(
    app: &App,
    agent: ProjectAgentId,
    (session, retry): (AgentSessionId, u32),
) -> Result<(), Problem> {
    let load = async || {
        let Some(agent) = app.store.any_aggregate::<ProjectAgent>(agent).await? else { return Ok(None) };
        match agent.value.crash_before_retry(session, retry) {
            Some(id) => Ok(app.store.free_decision(id).await?),
            None => Ok(None),
        }
    };
    let decide = |decision: Option<Loaded<FreeDecision>>, ctx: &mut DomainContext<'_>| {
        let Some(mut decision) = decision else { return Ok(Decision::Unchanged(())) };
        if decision.value.cancel(CancelReason::Retried, ctx.now).is_err() {
            return Ok(Decision::Unchanged(()));
        }
        let mut commit = Commit::new();
        commit.free_decision(&decision)?;
        Ok(Decision::Commit(commit, ()))
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}

/// Leaves the recovery of an agent that crashed to a person.
///
/// # Errors
/// [`Problem::VersionConflict`] after too many write conflicts, and errors of the store.
pub(crate) async fn leave_to_person(app: &App, agent: ProjectAgentId) -> Result<(), Problem> {
    let Some(loaded) = app.store.any_aggregate::<ProjectAgent>(agent).await? else { return Ok(()) };
    // The reaction to the crash may come later and would schedule a recovery.
    open(app, agent, loaded.value.current_session_id()).await?;
    let load = async || {
        let Some(agent) = app.store.any_aggregate::<ProjectAgent>(agent).await? else { return Ok(None) };
        match agent.value.latest_crash() {
            Some(id) => Ok(app.store.free_decision(id).await?),
            None => Ok(None),
        }
    };
    let decide = |decision: Option<Loaded<FreeDecision>>, _: &mut DomainContext<'_>| {
        let Some(mut decision) = decision.filter(|it| it.value.automatic_recovery().is_some()) else {
            return Ok(Decision::Unchanged(()));
        };
        decision.value.leave_to_person();
        let mut commit = Commit::new();
        commit.free_decision(&decision)?;
        Ok(Decision::Commit(commit, ()))
    };
    app.unit_of_work().run(RetryPolicy::STOP, load, decide).await
}

fn cause() -> Cause {
    Cause::Reaction { function: "crash".to_owned() }
}
