//! The decision about the crash of an agent (S2, "Crash recovery"; decision 81). The counters are those of the agent; an attempt of a session
//! crashes once, so that a repeated message changes nothing.

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::ticks::ProjectTime;
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_domain::decision::FreeDecision;
use pilothouse_domain::journal::Cause;
use pilothouse_domain::{AgentSession, AgentSessionId, DomainContext, ProjectAgent, ProjectAgentId};
use pilothouse_store::{Commit, Loaded, LoadedAggregate};

/// What a crash depends on. The agent is read first: a session that continues afterwards ends the decision by its own entry.
struct CrashState {
    agent: LoadedAggregate<ProjectAgent>,
    time: ProjectTime,
    session: AgentSession,
}

/// Opens the decision about the latest crash of an agent, if it has none.
///
/// # Errors
/// [`Problem::VersionConflict`] after too many write conflicts, and errors of the store.
pub(crate) async fn open(app: &App, agent: ProjectAgentId, session: AgentSessionId) -> Result<(), Problem> {
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
