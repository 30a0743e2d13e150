//! Allocates pool slots to sessions that need a run, and passes the slots of ended runs to waiting sessions (S0 8.2, decision 21).

use pilothouse_app::http::Problem;
use pilothouse_app::unit_of_work::RetryPolicy;
use pilothouse_app::{App, FreshIds};
use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::pool::SessionPool;
use pilothouse_domain::{AgentSessionId, SessionEvent, UserId};
use pilothouse_store::{Commit, LineScope, LoadedConversation, LoadedPool};

/// The most sessions that one reaction gives slots to.
const HANDED_ON: usize = 1000;

/// Whether an event may change the allocation of slots.
pub(super) const fn concerns(event: &SessionEvent) -> bool {
    matches!(
        event,
        SessionEvent::SlotWanted { .. }
            | SessionEvent::Retried { .. }
            | SessionEvent::RunEnded { .. }
            | SessionEvent::Cancelled {}
            | SessionEvent::PoolExhausted { .. }
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
        SessionEvent::PoolExhausted { .. } | SessionEvent::PoolConfigured { .. } => fill(app, owner).await,
        SessionEvent::RunEnded { run_id, .. } => {
            let release = |pool: &mut SessionPool| !pool.release(entry.session_id, *run_id).is_empty();
            change_pool(app, owner, LineScope::Nothing, release).await?;
            fill(app, owner).await
        }
        SessionEvent::Cancelled {} => {
            change_pool(app, owner, LineScope::Whole, |pool| pool.stop_waiting(entry.session_id)).await
        }
        _ => Ok(()),
    }
}

/// Gives free slots to waiting sessions in order.
pub async fn fill(app: &App, owner: &UserId) -> Result<(), Problem> {
    for _ in 0..HANDED_ON {
        if !allocate_next(app, owner).await? {
            return Ok(());
        }
    }
    Ok(())
}

async fn change_pool(
    app: &App,
    owner: &UserId,
    line: LineScope,
    change: impl Fn(&mut SessionPool) -> bool,
) -> Result<(), Problem> {
    let attempt = async || {
        let mut pool = app.store.pool_with(owner, line).await?;
        if !change(&mut pool.value) {
            return Ok(());
        }
        let mut commit = Commit::new();
        commit.pool(owner, &pool)?;
        Ok(app.store.commit(commit).await?)
    };
    RetryPolicy::EVENT.retry(attempt).await
}

/// Gives a free slot to the first session in line that can start. Returns whether there may be another one.
async fn allocate_next(app: &App, owner: &UserId) -> Result<bool, Problem> {
    let attempt = async || {
        let mut pool = app.store.pool_with(owner, LineScope::Head).await?;
        let Some(next) = pool.value.next_waiting() else { return Ok(false) };
        let mut commit = Commit::new();
        if let Some(loaded) = app.store.conversation(next).await? {
            if !allocate_in(app, owner, &mut commit, &mut pool, loaded)? {
                return Ok(false);
            }
        } else {
            // A deleted session must not block the others.
            pool.value.stop_waiting(next);
            commit.pool(owner, &pool)?;
        }
        app.store.commit(commit).await?;
        Ok(true)
    };
    RetryPolicy::EVENT.retry(attempt).await
}

/// Gives a session a slot or a position among the waiting sessions.
async fn allocate(app: &App, id: AgentSessionId) -> Result<(), Problem> {
    let attempt = async || {
        let Some(loaded) = app.store.conversation(id).await? else { return Ok(()) };
        let owner = loaded.conversation.session.owner_id().clone();
        let mut pool = app.store.pool(&owner).await?;
        let mut commit = Commit::new();
        if allocate_in(app, &owner, &mut commit, &mut pool, loaded)? {
            app.store.commit(commit).await?;
        }
        Ok(())
    };
    RetryPolicy::EVENT.retry(attempt).await
}

/// Adds the allocation of a slot, or the change of the line, to a commit. Returns whether anything changed.
fn allocate_in(
    app: &App,
    owner: &UserId,
    commit: &mut Commit,
    pool: &mut LoadedPool,
    mut loaded: LoadedConversation,
) -> Result<bool, Problem> {
    let before = pool.value.clone();
    let mut ids = FreshIds;
    let mut ctx = app.domain_context(&mut ids);
    let (_, events) = pool.value.allocate(&mut loaded.conversation.session, &mut ctx)?;
    if events.is_empty() && pool.value == before {
        return Ok(false);
    }
    commit.pool(owner, pool)?;
    if events.is_empty() {
        // The session leaves the line, because it needs no slot. It must not need one again meanwhile.
        commit.unchanged_session(&loaded);
    } else {
        let cause = Cause::Reaction { function: "hand-on-slots".to_owned() };
        app.record(commit, &mut loaded, cause, events)?;
    }
    Ok(true)
}
