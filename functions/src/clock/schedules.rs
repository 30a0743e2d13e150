//! Schedules of templates: a time that is due starts a session (S0 8.5 `AgentSchedule`, design note "Scheduled
//! automation").
//!
//! The session and the template's next time are one transaction, so each time starts one session, however often and by
//! however many the clock is looked at. Times that nobody looked at in time are one: a server that was down for a day
//! starts one session when it is back, not one for each time.

use pilothouse_domain::journal::Cause;
use pilothouse_domain::pool::PoolError;
use pilothouse_domain::template::{ScheduleSkip, SessionOrder};
use pilothouse_domain::{AgentTemplate, AgentTemplateId, Events, Occasion};
use pilothouse_store::{Commit, CommitError, LoadedOwned, Store};

use crate::app::{App, FreshIds};
use crate::edge::Problem;

/// How often a lost race is run again.
const TRIES: u32 = 40;

/// Carries out what a template's schedule has due; nothing when nothing is due.
///
/// # Errors
/// [`Problem::VersionConflict`] when others were first again and again; what the store says.
pub async fn carry_out(app: &App, id: AgentTemplateId) -> Result<(), Problem> {
    for attempt in 0..TRIES {
        let Some(loaded) = app.store.any_owned::<AgentTemplate>(id).await? else { return Ok(()) };
        let Some(commit) = prepare(app, loaded).await? else { return Ok(()) };
        match app.store.commit(commit).await {
            Ok(()) => return Ok(()),
            Err(CommitError::Conflict) => {
                tokio::time::sleep(Store::backoff(attempt, rand::random())).await;
            }
            Err(other) => return Err(other.into()),
        }
    }
    Err(Problem::VersionConflict)
}

/// The commit that does what is due. None: nothing is.
async fn prepare(app: &App, loaded: LoadedOwned<AgentTemplate>) -> Result<Option<Commit>, Problem> {
    let template = &loaded.value;
    let Some(due) = template.due_run(app.now()) else { return Ok(None) };
    if !template.is_active() {
        return skip(app, loaded, ScheduleSkip::Deactivated).map(Some);
    }
    let plan =
        app.plan_session(template.owner_id(), SessionOrder::scheduled(due.launch), Some(template)).await?;
    let session = plan.session.new.id;
    match app.prepare_plan(template.owner_id(), Cause::Clock, plan).await {
        Ok(opening) => {
            let pass = |it: &mut AgentTemplate, cx: &Occasion<'_>| it.record_run(session, cx);
            advance(app, loaded, opening.commit, pass).map(Some)
        }
        Err(Problem::Pool(PoolError::LineFull { .. })) => {
            skip(app, loaded, ScheduleSkip::PoolLineFull).map(Some)
        }
        Err(other) => Err(other),
    }
}

fn skip(app: &App, loaded: LoadedOwned<AgentTemplate>, reason: ScheduleSkip) -> Result<Commit, Problem> {
    advance(app, loaded, Commit::new(), |it, cx| it.record_skip(reason, cx))
}

/// Puts the template into the commit, with its next time.
fn advance(
    app: &App,
    mut loaded: LoadedOwned<AgentTemplate>,
    mut commit: Commit,
    pass: impl FnOnce(&mut AgentTemplate, &Occasion<'_>) -> Events,
) -> Result<Commit, Problem> {
    let mut ids = FreshIds;
    let events = pass(&mut loaded.value, &app.occasion(&mut ids));
    app.record_owned(&mut commit, &loaded, Cause::Clock, events)?;
    Ok(commit)
}
