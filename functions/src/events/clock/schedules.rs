//! Schedules of templates: start a session at each scheduled time (S0 8.5 `AgentSchedule`, design note "Scheduled automation").
//!
//! One transaction creates the session and advances the template's next time, so each time starts exactly one session, even if
//! several clocks run. Missed times count as one: a server that was down for a day starts one session when it is back.

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::session_start::{SessionPlan, StartState};
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_domain::journal::Cause;
use pilothouse_domain::pool::PoolError;
use pilothouse_domain::template::{ScheduleSkip, SessionSpec};
use pilothouse_domain::{AgentTemplate, AgentTemplateId, DomainContext, TemplateEvent};
use pilothouse_store::{Commit, LoadedAggregate};

/// A template whose schedule is due.
struct DueTemplate {
    template: LoadedAggregate<AgentTemplate>,
    start: DueStart,
}

/// What a due time starts.
enum DueStart {
    /// A session, with the state that its opening depends on.
    Session(Box<(SessionPlan, StartState)>),
    /// No session can start.
    Skip(ScheduleSkip),
}

/// Processes the due time of a template's schedule, if there is one.
///
/// # Errors
/// [`Problem::VersionConflict`] after too many write conflicts, and errors of the store.
pub async fn carry_out(app: &App, id: AgentTemplateId) -> Result<(), Problem> {
    let load = async || load(app, id).await;
    let decide = |due: Option<DueTemplate>, ctx: &mut DomainContext<'_>| {
        let Some(DueTemplate { mut template, start }) = due else { return Ok(Decision::Unchanged(())) };
        let (mut commit, events) = match start {
            DueStart::Session(start) => open(app, &mut template.value, *start, ctx)?,
            DueStart::Skip(reason) => (Commit::new(), template.value.record_skip(reason, ctx)),
        };
        app.record_aggregate(&mut commit, &template, Cause::Clock, events)?;
        Ok(Decision::Commit(commit, ()))
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}

/// Loads what the decision on a due time depends on. Returns `None` if no time is due.
async fn load(app: &App, id: AgentTemplateId) -> Result<Option<DueTemplate>, Problem> {
    let Some(loaded) = app.store.any_aggregate::<AgentTemplate>(id).await? else { return Ok(None) };
    let template = &loaded.value;
    let Some(due) = template.due_run(app.now()) else { return Ok(None) };
    let start = if template.is_active() {
        load_start(app, template, SessionSpec::scheduled(due.launch)).await?
    } else {
        DueStart::Skip(ScheduleSkip::Deactivated)
    };
    Ok(Some(DueTemplate { template: loaded, start }))
}

async fn load_start(app: &App, template: &AgentTemplate, spec: SessionSpec) -> Result<DueStart, Problem> {
    if app.adapter_or_default(template.content().adapter.clone()).is_err() {
        return Ok(DueStart::Skip(ScheduleSkip::NoAdapter));
    }
    let plan = match app.plan_session(template.owner_id(), spec, Some(template)).await {
        Ok(plan) => plan,
        Err(Problem::ModelNotAllowed(_)) => return Ok(DueStart::Skip(ScheduleSkip::ModelNotAllowed)),
        Err(other) => return Err(other),
    };
    match app.refuse_unmetered(&plan.session.new).await {
        Ok(()) => {
            let state = app.load_start(&plan).await?;
            Ok(DueStart::Session(Box::new((plan, state))))
        }
        Err(Problem::UnmeteredStart) => Ok(DueStart::Skip(ScheduleSkip::Unmetered)),
        Err(other) => Err(other),
    }
}

/// Opens the session of a due time, or skips the time if too many sessions wait.
fn open(
    app: &App,
    template: &mut AgentTemplate,
    (plan, state): (SessionPlan, StartState),
    ctx: &mut DomainContext<'_>,
) -> Result<(Commit, Vec<TemplateEvent>), Problem> {
    let session = plan.session.new.id;
    match app.prepare_plan(state, &Cause::Clock, plan, ctx) {
        Ok(opening) => Ok((opening.commit, template.record_run(session, ctx))),
        Err(Problem::Pool(PoolError::WaitingListFull { .. })) => {
            Ok((Commit::new(), template.record_skip(ScheduleSkip::PoolLineFull, ctx)))
        }
        Err(other) => Err(other),
    }
}
