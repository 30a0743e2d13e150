//! Puts the hold of a brake on its sessions, takes it off after the release, and starts the sessions that waited (S2 "Emergency
//! Brake", decision 72).
//!
//! Each session changes in a transaction of its own. Entries of one brake are processed in order. Should a hold still come after the
//! release, because its message was delivered twice or redriven, it is taken off again.

use std::collections::BTreeSet;

use futures_util::{StreamExt as _, stream};
use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_domain::brake::{Brake, BrakeEvent, ReleasedBy};
use pilothouse_domain::journal::Cause;
use pilothouse_domain::session::SessionError;
use pilothouse_domain::{AgentSessionId, Aggregate as _, BrakeId, DomainContext, Events};
use pilothouse_store::{Commit, LineScope, LoadedAggregate, LoadedConversation, LoadedPool};

use super::allocate_pool_slots::fill;

/// The most sessions that a reaction changes at the same time.
const CONCURRENT_SESSIONS: usize = 16;

/// Reacts to `event` of a brake.
pub(super) async fn react(app: &App, event: &BrakeEvent) -> Result<(), Problem> {
    match event {
        BrakeEvent::Pulled { brake_id, .. } => hold(app, *brake_id).await,
        BrakeEvent::SessionsReleased { brake_id, session_ids } => {
            let Some(brake) = load(app, *brake_id).await? else { return Ok(()) };
            release(app, &brake, &session_ids.iter().copied().collect()).await
        }
        BrakeEvent::Released { brake_id, .. } => {
            let Some(brake) = load(app, *brake_id).await? else { return Ok(()) };
            release(app, &brake, brake.session_ids()).await
        }
    }
}

async fn load(app: &App, id: BrakeId) -> Result<Option<Brake>, Problem> {
    Ok(app.store.any_aggregate::<Brake>(id).await?.map(|loaded| loaded.value))
}

/// Holds the sessions of a brake.
async fn hold(app: &App, id: BrakeId) -> Result<(), Problem> {
    let Some(brake) = load(app, id).await? else { return Ok(()) };
    let held: BTreeSet<_> =
        brake.session_ids().iter().copied().filter(|session| brake.holds(*session)).collect();
    change_all(app, &held, |it, ctx| hold_session(it, &brake, ctx)).await?;
    // The release may have run meanwhile.
    let Some(now) = load(app, id).await? else { return Ok(()) };
    let released: BTreeSet<_> =
        brake.session_ids().iter().copied().filter(|session| !now.holds(*session)).collect();
    if released.is_empty() { Ok(()) } else { release(app, &now, &released).await }
}

/// The events of a hold. A session that has ended is not held, but its agent must stop writing its handoff document.
fn hold_session(
    loaded: &mut LoadedConversation,
    brake: &Brake,
    ctx: &DomainContext<'_>,
) -> Result<Events, Problem> {
    let session = &mut loaded.conversation.session;
    match session.hold(brake.id(), brake.behavior(), ctx) {
        Err(SessionError::InvalidTransition { .. } | SessionError::Continued { .. }) => {
            session.stop_for_brake();
            Ok(Events::new())
        }
        held => Ok(held?),
    }
}

/// Takes the hold of a brake off sessions, and starts what waited.
async fn release(app: &App, brake: &Brake, sessions: &BTreeSet<AgentSessionId>) -> Result<(), Problem> {
    let release = |it: &mut LoadedConversation, ctx: &DomainContext<'_>| {
        Ok(it.conversation.session.release_hold(brake.id(), ctx))
    };
    change_all(app, sessions, release).await?;
    fill(app, brake.owner_id()).await
}

/// Changes sessions, several at a time. The failure of one does not keep the others from being changed.
async fn change_all(
    app: &App,
    sessions: &BTreeSet<AgentSessionId>,
    decide: impl Fn(&mut LoadedConversation, &DomainContext<'_>) -> Result<Events, Problem>,
) -> Result<(), Problem> {
    let changes: Vec<_> = sessions.iter().map(|session| change(app, *session, &decide)).collect();
    let outcomes = stream::iter(changes).buffer_unordered(CONCURRENT_SESSIONS);
    outcomes.fold(Ok(()), async |first, next| first.and(next)).await
}

/// Changes one session in one commit.
async fn change(
    app: &App,
    id: AgentSessionId,
    decide: impl Fn(&mut LoadedConversation, &DomainContext<'_>) -> Result<Events, Problem>,
) -> Result<(), Problem> {
    let load = async || Ok(app.store.conversation(id).await?);
    let decide = |loaded: Option<LoadedConversation>, ctx: &mut DomainContext<'_>| {
        let Some(mut loaded) = loaded else { return Ok(Decision::Unchanged(())) };
        let events = decide(&mut loaded, ctx)?;
        let events = app.with_consequences(&mut loaded.conversation, events, ctx);
        if events.is_empty() {
            return Ok(Decision::Unchanged(()));
        }
        let mut commit = Commit::new();
        app.record(&mut commit, &mut loaded, Cause::Reaction { function: "brake".to_owned() }, events)?;
        Ok(Decision::Commit(commit, ()))
    };
    app.unit_of_work().run(RetryPolicy::STOP, load, decide).await
}

/// A brake with the pool that it holds back.
struct TimerState {
    brake: LoadedAggregate<Brake>,
    pool: LoadedPool,
}

/// Releases a brake whose time is over.
///
/// # Errors
/// [`Problem::VersionConflict`] after too many write conflicts, and errors of the store.
pub async fn release_due(app: &App, id: BrakeId) -> Result<(), Problem> {
    let load = async || {
        let Some(brake) = app.store.any_aggregate::<Brake>(id).await? else { return Ok(None) };
        let pool = app.store.pool_with(brake.value.owner_id(), LineScope::Nothing).await?;
        Ok(Some(TimerState { brake, pool }))
    };
    let decide = |state: Option<TimerState>, ctx: &mut DomainContext<'_>| {
        let Some(TimerState { mut brake, mut pool }) = state else { return Ok(Decision::Unchanged(())) };
        if brake.value.due_at().is_none_or(|at| at > ctx.now) {
            return Ok(Decision::Unchanged(()));
        }
        let events = brake.value.release(ReleasedBy::Timer, &mut pool.value, ctx.now)?;
        let mut commit = Commit::new();
        app.record_aggregate(&mut commit, &brake, Cause::Clock, events)?;
        commit.pool(brake.value.owner_id(), &pool)?;
        Ok(Decision::Commit(commit, ()))
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}
