//! Ends or restarts a consolidation when its session ends or is retried (S0 8.7 `ConsolidateSkillCommand`; decision 52).

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::session::{AgentSession, AgentSessionStatus as S};
use pilothouse_domain::skill::SkillError;
use pilothouse_domain::{AgentSkill, DomainContext, SessionEvent, SkillEvent};
use pilothouse_store::{Commit, LoadedAggregate};

pub(super) const fn concerns(event: &SessionEvent) -> bool {
    matches!(
        event,
        SessionEvent::Approved { .. }
            | SessionEvent::Closed {}
            | SessionEvent::Cancelled {}
            | SessionEvent::Failed { .. }
            | SessionEvent::ContextExhausted { .. }
            | SessionEvent::VoluntaryHandoff { .. }
            | SessionEvent::Retried { .. }
    )
}

/// Updates the skill by the current status of its session.
pub(super) async fn react(app: &App, entry: &JournalEntry, event: &SessionEvent) -> Result<(), Problem> {
    if !concerns(event) {
        return Ok(());
    }
    let Some(session) = app.store.session(entry.session_id).await? else { return Ok(()) };
    let Some(id) = session.consolidates() else { return Ok(()) };
    let load = async || Ok(app.store.aggregate::<AgentSkill>(session.owner_id(), id).await?);
    let decide = |skill: Option<LoadedAggregate<AgentSkill>>, ctx: &mut DomainContext<'_>| {
        let Some(mut skill) = skill else { return Ok(Decision::Unchanged(())) };
        let events = follow(&mut skill.value, &session, ctx)?;
        if events.is_empty() {
            return Ok(Decision::Unchanged(()));
        }
        let mut commit = Commit::new();
        let cause = Cause::Reaction { function: "finish-consolidations".to_owned() };
        app.record_aggregate(&mut commit, &skill, cause, events)?;
        Ok(Decision::Commit(commit, ()))
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}

fn follow(
    skill: &mut AgentSkill,
    session: &AgentSession,
    ctx: &DomainContext<'_>,
) -> Result<Vec<SkillEvent>, SkillError> {
    let id = session.id();
    match session.status() {
        S::Completed => skill.finish_consolidation(id, ctx),
        status @ (S::Cancelled | S::Failed | S::ContextExhausted) => {
            Ok(skill.abandon_consolidation(id, &format!("the session is {status}"), ctx))
        }
        // A retried session continues its consolidation, unless another one has started or no pills are left.
        _ if skill.consolidation().is_none() => Ok(skill.start_consolidation(id, ctx).unwrap_or_default()),
        _ => Ok(Vec::new()),
    }
}
