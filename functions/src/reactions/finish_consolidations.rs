//! What becomes of a consolidation when its session ends, or is tried again (S0 8.7 `ConsolidateSkillCommand`;
//! docs/decisions/0011).

use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::session::{AgentSession, AgentSessionStatus as S};
use pilothouse_domain::skill::SkillError;
use pilothouse_domain::{AgentSkill, DomainEvent, Events, Occasion};
use pilothouse_store::{Commit, CommitError, Store};

use crate::app::{App, FreshIds};
use crate::edge::Problem;

/// How often a lost race is run again.
const TRIES: u32 = 32;

/// Whether an event may end a consolidation, or begin it again.
pub(super) const fn concerns(event: &DomainEvent) -> bool {
    matches!(
        event,
        DomainEvent::Approved { .. }
            | DomainEvent::Closed {}
            | DomainEvent::Cancelled {}
            | DomainEvent::Failed { .. }
            | DomainEvent::ContextExhausted { .. }
            | DomainEvent::VoluntaryHandoff { .. }
            | DomainEvent::Retried { .. }
    )
}

/// Has the skill follow its session, by where that stands now.
pub(super) async fn react(app: &App, entry: &JournalEntry, event: &DomainEvent) -> Result<(), Problem> {
    if !concerns(event) {
        return Ok(());
    }
    let Some(session) = app.store.session(entry.session_id).await? else { return Ok(()) };
    let Some(id) = session.consolidates() else { return Ok(()) };
    for attempt in 0..TRIES {
        let Some(mut skill) = app.store.owned::<AgentSkill>(session.owner_id(), id).await? else {
            return Ok(());
        };
        let events = follow(&mut skill.value, &session, &app.occasion(&mut FreshIds))?;
        if events.is_empty() {
            return Ok(());
        }
        let mut commit = Commit::new();
        let cause = Cause::Reaction { function: "finish-consolidations".to_owned() };
        app.record_owned(&mut commit, &skill, cause, events)?;
        match app.store.commit(commit).await {
            Ok(()) => return Ok(()),
            Err(CommitError::Conflict) => tokio::time::sleep(Store::backoff(attempt, rand::random())).await,
            Err(other) => return Err(other.into()),
        }
    }
    Err(Problem::VersionConflict)
}

fn follow(skill: &mut AgentSkill, session: &AgentSession, cx: &Occasion<'_>) -> Result<Events, SkillError> {
    let id = session.id();
    match session.status() {
        S::Completed => skill.finish_consolidation(id, cx),
        status @ (S::Cancelled | S::Failed | S::ContextExhausted) => {
            Ok(skill.abandon_consolidation(id, &format!("the session is {status}"), cx))
        }
        // Tried again: it goes on, unless another one took its place or nothing is left to do.
        _ if skill.consolidation().is_none() => Ok(skill.start_consolidation(id, cx).unwrap_or_default()),
        _ => Ok(Vec::new()),
    }
}
