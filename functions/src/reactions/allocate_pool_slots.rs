//! Allocates pool slots to sessions that need a run, and passes the slots of ended runs to waiting sessions (S0 8.2, decision 21).

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::{AgentSessionId, DomainContext, RunId, SessionEvent, UserId};
use pilothouse_store::{Commit, LineScope, LoadedConversation, LoadedPool};

/// Most sessions that one reaction gives slots to.
const HANDED_ON: usize = 1000;

pub(super) const fn concerns(event: &SessionEvent) -> bool {
    matches!(
        event,
        SessionEvent::SlotWanted { .. }
            | SessionEvent::Retried { .. }
            | SessionEvent::RunEnded { .. }
            | SessionEvent::Cancelled {}
            | SessionEvent::PoolExhausted { .. }
            | SessionEvent::StartBraked { .. }
            | SessionEvent::PoolConfigured { .. }
    )
}

pub(super) async fn react(app: &App, entry: &JournalEntry, event: &SessionEvent) -> Result<(), Problem> {
    let owner = &entry.owner_id;
    match event {
        SessionEvent::SlotWanted { .. } | SessionEvent::Retried { .. } => {
            allocate(app, entry.session_id).await?;
            fill(app, owner).await
        }
        // A session that joined the line looks again: its slot may have become free meanwhile.
        SessionEvent::PoolExhausted { .. }
        | SessionEvent::StartBraked { .. }
        | SessionEvent::PoolConfigured { .. } => fill(app, owner).await,
        SessionEvent::RunEnded { run_id, .. } => {
            release(app, entry, *run_id).await?;
            fill(app, owner).await
        }
        SessionEvent::Cancelled {} => stop_waiting(app, owner, entry.session_id).await,
        _ => Ok(()),
    }
}

pub async fn fill(app: &App, owner: &UserId) -> Result<(), Problem> {
    for _ in 0..HANDED_ON {
        if !allocate_next(app, owner).await? {
            return Ok(());
        }
    }
    Ok(())
}

async fn stop_waiting(app: &App, owner: &UserId, session: AgentSessionId) -> Result<(), Problem> {
    let load = async || Ok(app.store.pool_with(owner, LineScope::Whole).await?);
    let decide = |mut pool: LoadedPool, _: &mut DomainContext<'_>| {
        if !pool.value.stop_waiting(session) {
            return Ok(Decision::Unchanged(()));
        }
        let mut commit = Commit::new();
        commit.pool(owner, &pool)?;
        Ok(Decision::Commit(commit, ()))
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}

/// Frees the slot of an ended run, and records that in the journal of its session (S0 8.12 `ReleaseAsync`).
async fn release(app: &App, entry: &JournalEntry, run: RunId) -> Result<(), Problem> {
    let id = entry.session_id;
    let load = async || {
        let pool = app.store.pool_with(&entry.owner_id, LineScope::Nothing).await?;
        let holds = pool.value.leases().get(&id).is_some_and(|lease| lease.run_id == run);
        let session = if holds { app.store.conversation(id).await? } else { None };
        Ok(SlotState { pool, session })
    };
    let decide = |SlotState { mut pool, session }: SlotState, _: &mut DomainContext<'_>| {
        let events = pool.value.release(id, run);
        if events.is_empty() {
            return Ok(Decision::Unchanged(()));
        }
        let mut commit = Commit::new();
        commit.pool(&entry.owner_id, &pool)?;
        // A deleted session has no journal.
        if let Some(mut session) = session {
            app.record(&mut commit, &mut session, cause(), events)?;
        }
        Ok(Decision::Commit(commit, ()))
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}

fn cause() -> Cause {
    Cause::Reaction { function: "hand-on-slots".to_owned() }
}

struct SlotState {
    pool: LoadedPool,
    /// None: the session was deleted.
    session: Option<LoadedConversation>,
}

/// Gives a free slot to the first session in line that can start. Returns whether there may be another one.
async fn allocate_next(app: &App, owner: &UserId) -> Result<bool, Problem> {
    let load = async || {
        let pool = app.store.pool_with(owner, LineScope::Head).await?;
        let session = match pool.value.next_waiting() {
            Some(next) => app.store.conversation(next).await?,
            None => None,
        };
        Ok(SlotState { pool, session })
    };
    let decide = |SlotState { mut pool, session }: SlotState, ctx: &mut DomainContext<'_>| {
        let Some(next) = pool.value.next_waiting() else { return Ok(Decision::Unchanged(false)) };
        if let Some(session) = session {
            let commit = allocate_in(app, owner, pool, session, ctx)?;
            return Ok(commit.map_or(Decision::Unchanged(false), |commit| Decision::Commit(commit, true)));
        }
        // A deleted session must not block the others.
        pool.value.stop_waiting(next);
        let mut commit = Commit::new();
        commit.pool(owner, &pool)?;
        Ok(Decision::Commit(commit, true))
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}

/// Gives a session a slot or a position among the waiting sessions.
async fn allocate(app: &App, id: AgentSessionId) -> Result<(), Problem> {
    let load = async || {
        let Some(session) = app.store.conversation(id).await? else { return Ok(None) };
        let pool = app.store.pool(session.conversation.session.owner_id()).await?;
        Ok(Some((pool, session)))
    };
    let decide = |state: Option<(LoadedPool, LoadedConversation)>, ctx: &mut DomainContext<'_>| {
        let Some((pool, session)) = state else { return Ok(Decision::Unchanged(())) };
        let owner = session.conversation.session.owner_id().clone();
        let commit = allocate_in(app, &owner, pool, session, ctx)?;
        Ok(commit.into())
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}

/// The commit that allocates a slot or changes the line; `None` if nothing changes.
fn allocate_in(
    app: &App,
    owner: &UserId,
    mut pool: LoadedPool,
    mut loaded: LoadedConversation,
    ctx: &mut DomainContext<'_>,
) -> Result<Option<Commit>, Problem> {
    let before = pool.value.clone();
    let (_, events) = pool.value.allocate(&mut loaded.conversation.session, ctx)?;
    if events.is_empty() && pool.value == before {
        return Ok(None);
    }
    let mut commit = Commit::new();
    commit.pool(owner, &pool)?;
    if events.is_empty() {
        // The session leaves the line, because it needs no slot. It must not need one again meanwhile.
        commit.unchanged_session(&loaded);
    } else {
        app.record(&mut commit, &mut loaded, cause(), events)?;
    }
    Ok(Some(commit))
}
