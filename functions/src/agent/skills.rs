//! What an agent does with skills: it records memory pills, and proposes what a consolidation is to make of them. Skill and
//! session are changed in one transaction: the pill stands in the skill, and the session's activity says so.

use pilothouse_domain::agent_api::CALLS;
use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::session::AgentSession;
use pilothouse_domain::{AgentSkill, AgentSkillId, Events, Occasion};
use pilothouse_store::{Commit, CommitError, Store};
use serde_json::Value;

use crate::app::{App, FreshIds};
use crate::change::{Answer, Call};
use crate::edge::{AgentCaller, Problem};
use crate::skills::no_skill;
use crate::trace;

/// What is asked, beside the change itself.
pub(super) struct Asked {
    pub(super) function: &'static str,
    /// SHA-256 of the body: an idempotency key remembers it.
    pub(super) request_hash: String,
    pub(super) skill: AgentSkillId,
}

/// Changes a skill of the caller's owner by one domain call. The events stand in both journals.
pub(super) async fn change(
    app: &App,
    caller: &AgentCaller,
    asked: Asked,
    mut decide: impl FnMut(&mut AgentSkill, &AgentSession, &mut Occasion<'_>) -> Result<(Events, Answer), Problem>,
) -> Result<Answer, Problem> {
    for attempt in 0..32 {
        let mut loaded = super::caller_session(app, caller).await?;
        let owner = loaded.conversation.session.owner_id().clone();
        let request = format!("{} {}", asked.skill, asked.request_hash);
        let call = Call::of_agent(owner, asked.function, caller, &request);
        if let Some(answer) = call.earlier_answer(&app.store).await? {
            return Ok(answer);
        }
        let mut calls = app.store.calls(caller.session).await?;
        calls.value = calls.value.take(CALLS, app.now())?;
        let skill = app.store.owned::<AgentSkill>(&call.owner, asked.skill).await?;
        let mut skill = skill.ok_or_else(no_skill)?;
        let mut ids = FreshIds;
        let mut cx = app.occasion(&mut ids);
        let session = &mut loaded.conversation.session;
        let (events, answer) = decide(&mut skill.value, session, &mut cx)?;
        if events.is_empty() && !call.has_key() {
            return Ok(answer);
        }
        let cause = || Cause::AgentApi { function: asked.function.to_owned(), body: Value::Null };
        let mut commit = Commit::new();
        commit.calls(caller.session, &calls)?;
        app.record_owned(&mut commit, &skill, cause(), events.clone())?;
        let mut entry = JournalEntry::record(session, cx.event_id(), cx.now, cause(), events, Vec::new());
        entry.traceparent = trace::here();
        commit.entry(&entry, None)?;
        commit.conversation(&loaded, &app.deadlines)?;
        call.keep_answer(&mut commit, &answer, app)?;
        match app.store.commit(commit).await {
            Ok(()) => return Ok(answer),
            Err(CommitError::Conflict | CommitError::AnswerExists) => {
                tokio::time::sleep(Store::backoff(attempt, rand::random())).await;
            }
            Err(other) => return Err(other.into()),
        }
    }
    Err(Problem::VersionConflict)
}
