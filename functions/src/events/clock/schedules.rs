//! Schedules of templates: start a session at each scheduled time (S0 8.5 `AgentSchedule`, design note "Scheduled automation").
//!
//! One transaction creates the session and advances the template's next time, so each time starts exactly one session, even if
//! several clocks run. Missed times count as one: a server that was down for a day starts one session when it is back.

use pilothouse_app::http::Problem;
use pilothouse_app::unit_of_work::RetryPolicy;
use pilothouse_app::{App, FreshIds};
use pilothouse_domain::journal::Cause;
use pilothouse_domain::pool::PoolError;
use pilothouse_domain::template::{ScheduleSkip, SessionSpec};
use pilothouse_domain::{AgentTemplate, AgentTemplateId, DomainContext, TemplateEvent};
use pilothouse_store::{Commit, LoadedAggregate};

/// Processes the due time of a template's schedule, if there is one.
///
/// # Errors
/// [`Problem::VersionConflict`] after too many write conflicts, and errors of the store.
pub async fn carry_out(app: &App, id: AgentTemplateId) -> Result<(), Problem> {
    let attempt = async || {
        let Some(loaded) = app.store.any_aggregate::<AgentTemplate>(id).await? else { return Ok(()) };
        let Some(commit) = prepare(app, loaded).await? else { return Ok(()) };
        Ok(app.store.commit(commit).await?)
    };
    RetryPolicy::EVENT.retry(attempt).await
}

/// Returns the commit for the due time, or `None` if no time is due.
async fn prepare(app: &App, loaded: LoadedAggregate<AgentTemplate>) -> Result<Option<Commit>, Problem> {
    let template = &loaded.value;
    let Some(due) = template.due_run(app.now()) else { return Ok(None) };
    if !template.is_active() {
        return skip(app, loaded, ScheduleSkip::Deactivated).map(Some);
    }
    let plan =
        app.plan_session(template.owner_id(), SessionSpec::scheduled(due.launch), Some(template)).await?;
    match app.refuse_unmetered(&plan.session.new).await {
        Ok(()) => {}
        Err(Problem::UnmeteredStart) => return skip(app, loaded, ScheduleSkip::Unmetered).map(Some),
        Err(other) => return Err(other),
    }
    let session = plan.session.new.id;
    let state = app.load_start(&plan).await?;
    match app.prepare_plan(state, &Cause::Clock, plan, &mut app.domain_context(&mut FreshIds)) {
        Ok(opening) => {
            let pass = |it: &mut AgentTemplate, ctx: &DomainContext<'_>| it.record_run(session, ctx);
            advance(app, loaded, opening.commit, pass).map(Some)
        }
        Err(Problem::Pool(PoolError::WaitingListFull { .. })) => {
            skip(app, loaded, ScheduleSkip::PoolLineFull).map(Some)
        }
        Err(other) => Err(other),
    }
}

fn skip(app: &App, loaded: LoadedAggregate<AgentTemplate>, reason: ScheduleSkip) -> Result<Commit, Problem> {
    advance(app, loaded, Commit::new(), |it, ctx| it.record_skip(reason, ctx))
}

/// Adds the template with its next time to the commit.
fn advance(
    app: &App,
    mut loaded: LoadedAggregate<AgentTemplate>,
    mut commit: Commit,
    pass: impl FnOnce(&mut AgentTemplate, &DomainContext<'_>) -> Vec<TemplateEvent>,
) -> Result<Commit, Problem> {
    let mut ids = FreshIds;
    let events = pass(&mut loaded.value, &app.domain_context(&mut ids));
    app.record_aggregate(&mut commit, &loaded, Cause::Clock, events)?;
    Ok(commit)
}
