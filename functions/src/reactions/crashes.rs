//! Opens a decision when an agent of a project crashes, and ends the decision when the session is retried in another way (S2, "Crash
//! recovery"; decision 81).

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_domain::decision::{CancelReason, FreeDecision};
use pilothouse_domain::journal::JournalEntry;
use pilothouse_domain::{AgentSessionId, DomainContext, ProjectAgent, ProjectAgentId, SessionEvent};
use pilothouse_store::{Commit, Loaded};

use crate::free_decisions::crash;

pub(super) const fn concerns(event: &SessionEvent) -> bool {
    match event {
        SessionEvent::Failed { failure_reason, .. } => failure_reason.is_crash(),
        SessionEvent::Retried { .. } => true,
        _ => false,
    }
}

pub(super) async fn react(app: &App, entry: &JournalEntry, event: &SessionEvent) -> Result<(), Problem> {
    let Some(membership) = entry.project.as_ref().filter(|_| concerns(event)) else { return Ok(()) };
    match event {
        SessionEvent::Retried { retry_count, .. } => {
            end(app, membership.agent_id, (entry.session_id, *retry_count)).await
        }
        _ => crash::open(app, membership.agent_id, entry.session_id).await,
    }
}

async fn end(
    app: &App,
    agent: ProjectAgentId,
    (session, retry): (AgentSessionId, u32),
) -> Result<(), Problem> {
    let load = async || {
        let Some(agent) = app.store.any_aggregate::<ProjectAgent>(agent).await? else { return Ok(None) };
        match agent.value.crash_before_retry(session, retry) {
            Some(id) => Ok(app.store.free_decision(id).await?),
            None => Ok(None),
        }
    };
    let decide = |decision: Option<Loaded<FreeDecision>>, ctx: &mut DomainContext<'_>| {
        let Some(mut decision) = decision else { return Ok(Decision::Unchanged(())) };
        if decision.value.cancel(CancelReason::Retried, ctx.now).is_err() {
            return Ok(Decision::Unchanged(()));
        }
        let mut commit = Commit::new();
        commit.free_decision(&decision)?;
        Ok(Decision::Commit(commit, ()))
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}
