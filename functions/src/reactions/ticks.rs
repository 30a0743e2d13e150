//! Keeps the clock of a project (S2, "Tick Service"; decision 76): it runs while an agent works or waits for a person, with the
//! configuration of the project.

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::ticks::ProjectTime;
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_domain::journal::JournalEntry;
use pilothouse_domain::project::AgentStatus;
use pilothouse_domain::value::ProjectMembership;
use pilothouse_domain::{DomainContext, ProjectAgent, ProjectId, SessionEvent};

pub(super) const fn concerns(event: &SessionEvent) -> bool {
    AgentStatus::may_change_activity(event)
}

/// Updates the set of active agents after an entry of a session in a project.
pub(super) async fn react(app: &App, entry: &JournalEntry) -> Result<(), Problem> {
    let Some(membership) = entry.project.as_ref().filter(|_| entry.events.iter().any(concerns)) else {
        return Ok(());
    };
    // The session may change between the reads and the commit, and the reaction to that change may have read the clock before the
    // commit. The pass after a commit sees such a change.
    while update_activity(app, entry, membership).await? {}
    Ok(())
}

/// Returns whether the clock changed.
async fn update_activity(
    app: &App,
    entry: &JournalEntry,
    membership: &ProjectMembership,
) -> Result<bool, Problem> {
    let load = async || {
        let Some(time) = app.project_time(membership.project_id).await? else { return Ok(None) };
        let is_active = is_active(app, entry, membership).await?;
        Ok(Some((time, is_active)))
    };
    let decide = |state: Option<(ProjectTime, bool)>, ctx: &mut DomainContext<'_>| {
        let Some((time, is_active)) = state else { return Ok(Decision::Unchanged(false)) };
        let mut clock = time.clock(ctx.now)?;
        if !clock.set_active(membership.agent_id, is_active, ctx.now) {
            return Ok(Decision::Unchanged(false));
        }
        let commit = time.commit(clock)?;
        Ok(commit.map_or(Decision::Unchanged(false), |commit| Decision::Commit(commit, true)))
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}

/// Whether the current session of the agent advances the ticks.
async fn is_active(app: &App, entry: &JournalEntry, membership: &ProjectMembership) -> Result<bool, Problem> {
    let Some(agent) = app.store.aggregate::<ProjectAgent>(&entry.owner_id, membership.agent_id).await? else {
        return Ok(false);
    };
    let session = app.store.session(agent.value.current_session_id()).await?;
    Ok(session.is_some_and(|session| AgentStatus::of(&session).advances_ticks()))
}

/// Gives the clock the configuration of its project. A project whose clock was not needed yet has none.
pub(super) async fn configure(app: &App, id: ProjectId) -> Result<(), Problem> {
    let load = async || app.project_time(id).await;
    let decide = |time: Option<ProjectTime>, ctx: &mut DomainContext<'_>| {
        let Some(time) = time.filter(ProjectTime::has_clock) else { return Ok(Decision::Unchanged(())) };
        Ok(time.commit(time.clock(ctx.now)?)?.into())
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}
