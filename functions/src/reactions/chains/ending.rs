//! The end of a chain: with its current session (decision 35), or by its owner.

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_domain::decision::{CancelReason, FreeDecision};
use pilothouse_domain::session::{AgentSessionStatus, WorkStop};
use pilothouse_domain::{AgentSessionId, DomainContext, SessionChainId};
use pilothouse_store::{Commit, Loaded};

use super::{Member, cause};

/// Completes a chain when its current session is closed or approved.
pub(super) fn complete(
    app: &App,
    member: Member,
    ctx: &DomainContext<'_>,
) -> Result<Option<Commit>, Problem> {
    let done = member.loaded.conversation.session.status() == AgentSessionStatus::Completed;
    if !member.is_current() || !done {
        return Ok(None);
    }
    let Member { loaded, mut chain } = member;
    let session = &loaded.conversation.session;
    let spent = session.budget().account_usd();
    // The chain was completed in the commit of its session, or cancelled.
    let Ok(events) = chain.value.complete(session.status(), spent, ctx.now) else { return Ok(None) };
    let mut commit = Commit::new();
    app.record_aggregate(&mut commit, &chain, cause("complete-chain"), events)?;
    Ok(Some(commit))
}

/// Cancels the chain of an agent that was killed before another session continued its work.
pub(super) fn cancel_chain_of_killed(
    app: &App,
    member: Member,
    ctx: &DomainContext<'_>,
) -> Result<Option<Commit>, Problem> {
    let mut chain = member.chain;
    let events = chain.value.cancel(ctx.now)?;
    let mut commit = Commit::new();
    app.record_aggregate(&mut commit, &chain, cause("end-chain-of-killed"), events)?;
    Ok(Some(commit))
}

/// Records that no session continues the work of an exhausted one, and cancels its queued messages, as for cancelled sessions
/// (decision 30).
pub(super) fn abandon(app: &App, member: Member) -> Result<Option<Commit>, Problem> {
    let mut loaded = member.loaded;
    let session = &loaded.conversation.session;
    if session.run().is_some() || session.work_stop() == Some(WorkStop::Killed) {
        return Ok(None);
    }
    let events = loaded.conversation.abandon_work(member.chain.value.id());
    if events.is_empty() {
        return Ok(None);
    }
    let mut commit = Commit::new();
    app.record(&mut commit, &mut loaded, cause("abandon-work"), events)?;
    Ok(Some(commit))
}

/// Cancels a session of a cancelled chain if it has not ended. Abandons the work of an exhausted session.
pub(super) async fn cancel(app: &App, id: AgentSessionId) -> Result<(), Problem> {
    let load = async || Member::load(app, id).await;
    let decide = |member: Option<Member>, ctx: &mut DomainContext<'_>| {
        let Some(member) = member else { return Ok(Decision::Unchanged(())) };
        let commit = match member.loaded.conversation.session.status() {
            AgentSessionStatus::ContextExhausted if member.is_current() => abandon(app, member)?,
            status if status.is_terminal() => None,
            _ => cancellation(app, member, ctx)?,
        };
        Ok(commit.into())
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}

fn cancellation(app: &App, member: Member, ctx: &mut DomainContext<'_>) -> Result<Option<Commit>, Problem> {
    let mut loaded = member.loaded;
    let asked = loaded.conversation.session.request_cancel(false, ctx)?;
    if asked.is_empty() {
        return Ok(None);
    }
    let events = app.with_consequences(&mut loaded.conversation, asked, ctx);
    let mut commit = Commit::new();
    app.record(&mut commit, &mut loaded, cause("cancel-chain"), events)?;
    Ok(Some(commit))
}

/// Ends the decision about a chain that was cancelled in another way.
pub(super) async fn end_decision(app: &App, id: SessionChainId) -> Result<(), Problem> {
    let load = async || Ok(app.store.free_decision(FreeDecision::failed_handoff_of(id)).await?);
    let decide = |decision: Option<Loaded<FreeDecision>>, ctx: &mut DomainContext<'_>| {
        let Some(mut decision) = decision else { return Ok(Decision::Unchanged(())) };
        if decision.value.cancel(CancelReason::ChainEnded, ctx.now).is_err() {
            return Ok(Decision::Unchanged(()));
        }
        let mut commit = Commit::new();
        commit.free_decision(&decision)?;
        Ok(Decision::Commit(commit, ()))
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}
