//! Allocates pool slots to sessions that need a run, and passes the slots of ended runs to waiting sessions (S0 8.2, decision 21).

use pilothouse_app::http::Problem;
use pilothouse_app::unit_of_work::RetryPolicy;
use pilothouse_app::{App, FreshIds};
use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::{AgentSessionId, DomainEvent, UserId};
use pilothouse_store::Commit;

/// The most sessions that one reaction gives slots to.
const HANDED_ON: usize = 1000;

/// Whether an event may change the allocation of slots.
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

/// Reacts to `event`.
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
            change_pool(app, &entry.owner_id, |pool| pool.stop_waiting(entry.session_id)).await
        }
        _ => Ok(()),
    }
}

/// Gives free slots to waiting sessions in order.
pub async fn fill(app: &App, owner: &UserId) -> Result<(), Problem> {
    for _ in 0..HANDED_ON {
        let pool = app.store.pool(owner).await?;
        let Some(next) = pool.value.next_waiting() else { return Ok(()) };
        if app.store.session(next).await?.is_none() {
            // A deleted session must not block the others.
            change_pool(app, owner, |pool| pool.stop_waiting(next)).await?;
        } else if !allocate(app, next).await? {
            return Ok(());
        }
    }
    Ok(())
}

async fn change_pool(
    app: &App,
    owner: &UserId,
    change: impl Fn(&mut pilothouse_domain::pool::SessionPool) -> bool,
) -> Result<(), Problem> {
    let attempt = async || {
        let mut pool = app.store.pool(owner).await?;
        if !change(&mut pool.value) {
            return Ok(());
        }
        let mut commit = Commit::new();
        commit.pool(owner, &pool)?;
        Ok(app.store.commit(commit).await?)
    };
    RetryPolicy::EVENT.retry(attempt).await
}

/// Gives a session a slot or a position among the waiting sessions. Returns whether anything changed.
async fn allocate(app: &App, id: AgentSessionId) -> Result<bool, Problem> {
    let attempt = async || {
        let Some(mut loaded) = app.store.conversation(id).await? else { return Ok(false) };
        let owner = loaded.conversation.session.owner_id().clone();
        let mut pool = app.store.pool(&owner).await?;
        let before = pool.value.clone();
        let mut ids = FreshIds;
        let mut ctx = app.domain_context(&mut ids);
        let (_, events) = pool.value.allocate(&mut loaded.conversation.session, &mut ctx)?;
        if events.is_empty() && pool.value == before {
            return Ok(false);
        }
        let mut commit = Commit::new();
        commit.pool(&owner, &pool)?;
        if !events.is_empty() {
            let cause = Cause::Reaction { function: "hand-on-slots".to_owned() };
            app.record(&mut commit, &mut loaded, cause, events)?;
        }
        app.store.commit(commit).await?;
        Ok(true)
    };
    RetryPolicy::EVENT.retry(attempt).await
}
