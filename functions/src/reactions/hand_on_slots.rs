//! Finds slots for sessions that want a run, and hands those of runs that are over to who waits (S0 8.2, ruling 21).

use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::{AgentSessionId, DomainEvent, UserId};
use pilothouse_store::{Commit, CommitError, Store};

use crate::app::{App, FreshIds};
use crate::edge::Problem;

/// How often a lost race is run again: many sessions of an owner share one pool.
const TRIES: u32 = 100;
/// Sessions that one reaction hands slots to, at most.
const HANDED_ON: usize = 1000;

/// Whether an event may move the line.
pub(super) const fn concerns(event: &DomainEvent) -> bool {
    matches!(
        event,
        DomainEvent::SlotWanted { .. }
            | DomainEvent::Retried { .. }
            | DomainEvent::RunEnded { .. }
            | DomainEvent::Cancelled {}
            | DomainEvent::PoolExhausted { .. }
            | DomainEvent::PoolConfigured { .. }
    )
}

/// Does what `event` asks for.
pub(super) async fn react(app: &App, entry: &JournalEntry, event: &DomainEvent) -> Result<(), Problem> {
    match event {
        DomainEvent::SlotWanted { .. } | DomainEvent::Retried { .. } | DomainEvent::PoolExhausted { .. } => {
            allocate(app, entry.session_id).await?;
            fill(app, &entry.owner_id).await
        }
        DomainEvent::PoolConfigured { .. } => fill(app, &entry.owner_id).await,
        DomainEvent::RunEnded { run_id, .. } => {
            change_pool(app, &entry.owner_id, |pool| !pool.release(entry.session_id, *run_id).is_empty())
                .await?;
            fill(app, &entry.owner_id).await
        }
        DomainEvent::Cancelled {} => {
            change_pool(app, &entry.owner_id, |pool| pool.leave_line(entry.session_id)).await
        }
        _ => Ok(()),
    }
}

/// Gives free slots to who waits, first come first.
pub async fn fill(app: &App, owner: &UserId) -> Result<(), Problem> {
    for _ in 0..HANDED_ON {
        let pool = app.store.pool(owner).await?;
        let Some(next) = pool.value.next_in_line() else { return Ok(()) };
        if app.store.session(next).await?.is_none() {
            // It must not hold the line up.
            change_pool(app, owner, |pool| pool.leave_line(next)).await?;
        } else if !allocate(app, next).await? {
            return Ok(());
        }
    }
    Ok(())
}

async fn change_pool(
    app: &App,
    owner: &UserId,
    mut change: impl FnMut(&mut pilothouse_domain::pool::SessionPool) -> bool,
) -> Result<(), Problem> {
    for attempt in 0..TRIES {
        let mut pool = app.store.pool(owner).await?;
        if !change(&mut pool.value) {
            return Ok(());
        }
        let mut commit = Commit::new();
        commit.pool(owner, &pool)?;
        match app.store.commit(commit).await {
            Ok(()) => return Ok(()),
            Err(CommitError::Conflict) => tokio::time::sleep(Store::backoff(attempt, rand::random())).await,
            Err(other) => return Err(other.into()),
        }
    }
    Err(Problem::VersionConflict)
}

/// Gives a session the slot that it wants, or its place in line. Whether anything moved.
async fn allocate(app: &App, id: AgentSessionId) -> Result<bool, Problem> {
    for attempt in 0..TRIES {
        let Some(mut loaded) = app.store.conversation(id).await? else { return Ok(false) };
        let owner = loaded.conversation.session.owner_id().clone();
        let mut pool = app.store.pool(&owner).await?;
        let before = pool.value.clone();
        let mut ids = FreshIds;
        let mut cx = app.occasion(&mut ids);
        let (_, events) = pool.value.allocate(&mut loaded.conversation.session, &mut cx)?;
        if events.is_empty() && pool.value == before {
            return Ok(false);
        }
        let mut commit = Commit::new();
        commit.pool(&owner, &pool)?;
        if !events.is_empty() {
            let cause = Cause::Reaction { function: "hand-on-slots".to_owned() };
            app.record(&mut commit, &mut loaded, cause, events)?;
        }
        match app.store.commit(commit).await {
            Ok(()) => return Ok(true),
            Err(CommitError::Conflict) => tokio::time::sleep(Store::backoff(attempt, rand::random())).await,
            Err(other) => return Err(other.into()),
        }
    }
    Err(Problem::VersionConflict)
}
