//! The ends of chains: with their current session (ruling 35), or by their owner.

use pilothouse_domain::AgentSessionId;
use pilothouse_domain::session::AgentSessionStatus;
use pilothouse_store::Commit;

use super::{Member, TRIES, cause, settle};
use crate::app::{App, FreshIds};
use crate::edge::Problem;

/// Closing or approving the current session completes its chain.
pub(super) fn complete(app: &App, member: Member) -> Result<Option<Commit>, Problem> {
    let done = member.loaded.conversation.session.status() == AgentSessionStatus::Completed;
    if !member.is_current() || !done {
        return Ok(None);
    }
    let Member { loaded, mut chain } = member;
    let session = &loaded.conversation.session;
    let spent = session.budget().account_usd();
    // Over already: completed together with its session, or cancelled.
    let Ok(events) = chain.value.complete(session.status(), spent, app.now()) else { return Ok(None) };
    let mut commit = Commit::new();
    app.record_owned(&mut commit, &chain, cause("complete-chain"), events)?;
    Ok(Some(commit))
}

/// No session goes on with the work: what waits is cancelled, as it is on sessions that were cancelled (ruling 30).
pub(super) fn abandon(app: &App, member: Member) -> Result<Option<Commit>, Problem> {
    let mut loaded = member.loaded;
    if loaded.conversation.session.run().is_some() {
        return Ok(None);
    }
    let events = loaded.conversation.abandon_queue();
    if events.is_empty() {
        return Ok(None);
    }
    let mut commit = Commit::new();
    app.record(&mut commit, &mut loaded, cause("abandon-work"), events)?;
    Ok(Some(commit))
}

/// Cancels a session of a cancelled chain, if it is not over; what waits on an exhausted one is cancelled.
pub(super) async fn cancel(app: &App, id: AgentSessionId) -> Result<(), Problem> {
    for attempt in 0..TRIES {
        let Some(member) = Member::load(app, id).await? else { return Ok(()) };
        let status = member.loaded.conversation.session.status();
        let commit = match status {
            AgentSessionStatus::ContextExhausted if member.is_current() => abandon(app, member)?,
            status if status.is_terminal() => None,
            _ => cancellation(app, member)?,
        };
        if settle(app, commit, attempt).await? {
            return Ok(());
        }
    }
    Err(Problem::VersionConflict)
}

fn cancellation(app: &App, member: Member) -> Result<Option<Commit>, Problem> {
    let mut loaded = member.loaded;
    let mut ids = FreshIds;
    let mut cx = app.occasion(&mut ids);
    let asked = loaded.conversation.session.request_cancel(false, &mut cx)?;
    if asked.is_empty() {
        return Ok(None);
    }
    let events = app.follow(&mut loaded.conversation, asked, &mut cx);
    let mut commit = Commit::new();
    app.record(&mut commit, &mut loaded, cause("cancel-chain"), events)?;
    Ok(Some(commit))
}
