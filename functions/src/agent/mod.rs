//! The agent API: what an agent calls with its session's key (S0 8.9, ruling 8).

pub mod consolidation;
pub mod handoff;
pub mod learning;
pub mod log;
pub mod memory_pill;
pub mod output;
mod skills;
pub mod task;

use axum::extract::State;
use pilothouse_domain::agent_api::{self, AgentItem};
use pilothouse_domain::conversation::Conversation;
use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::session::AgentSessionStatus;
use pilothouse_domain::value::{ActivityItem, ActivityItemType};
use pilothouse_domain::{AgentSessionId, Events, Occasion, Timestamp};
use pilothouse_store::{Commit, CommitError, LoadedConversation, Store, View};
use serde_json::Value;

use crate::app::{App, FreshIds};
use crate::change::{Answer, Call};
use crate::edge::{AgentCaller, Problem};
use crate::trace;

/// The caller's own session. The key must be that of a session with a live run (ruling 8).
async fn caller_session(app: &App, caller: &AgentCaller) -> Result<LoadedConversation, Problem> {
    const REFUSED: Problem = Problem::Unauthenticated("the API key is not valid for a running session");
    let loaded = app.store.conversation(caller.session).await?.ok_or(REFUSED)?;
    let session = &loaded.conversation.session;
    // An agent whose context is full may say its last words as long as its process lives.
    let last_words = session.status() == AgentSessionStatus::ContextExhausted && session.run().is_some();
    let lives = session.is_live() || last_words;
    if caller.is_known_by(session.api_key_hash()) && lives { Ok(loaded) } else { Err(REFUSED) }
}

/// Changes the caller's own session, and answers with what `show` makes of it.
async fn change(
    state: State<App>,
    caller: &AgentCaller,
    named: AgentSessionId,
    what: Said,
    decide: impl FnMut(&mut Conversation, &mut Occasion<'_>) -> Result<Events, Problem>,
    show: impl Fn(&Conversation) -> Result<Answer, Problem>,
) -> Result<Answer, Problem> {
    change_and_tell(state, caller, named, what, decide, |it, _| show(it)).await
}

/// The same; `show` sees the events, too.
///
/// The key must be that of a session with a live run (ruling 8); another session in the path is not there for it. Every
/// call that is carried out counts against the limit ([`agent_api::CALLS`]) and leaves a line in the activity stream; one
/// that is refused, or answered from an idempotency record, does neither. The count stands in the table, so that it holds
/// wherever a call is answered.
async fn change_and_tell(
    State(app): State<App>,
    caller: &AgentCaller,
    named: AgentSessionId,
    what: Said,
    mut decide: impl FnMut(&mut Conversation, &mut Occasion<'_>) -> Result<Events, Problem>,
    show: impl Fn(&Conversation, &Events) -> Result<Answer, Problem>,
) -> Result<Answer, Problem> {
    for attempt in 0..32 {
        let mut loaded = caller_session(&app, caller).await?;
        let session = &loaded.conversation.session;
        if named != caller.session {
            return Err(Problem::no_session());
        }
        let call = Call::of_agent(session.owner_id().clone(), what.function, caller, &what.request_hash);
        if let Some(answer) = call.earlier_answer(&app.store).await? {
            return Ok(answer);
        }
        let mut ids = FreshIds;
        let mut cx = app.occasion(&mut ids);
        let mut calls = app.store.calls(caller.session).await?;
        calls.value = calls.value.take(agent_api::CALLS, cx.now)?;
        let events = decide(&mut loaded.conversation, &mut cx)?;
        let events = app.follow(&mut loaded.conversation, events, &mut cx);
        let answer = show(&loaded.conversation, &events)?;
        let line = ActivityItem::new(ActivityItemType::Message, &what.summary, cx.now);
        let cause = Cause::AgentApi { function: what.function.to_owned(), body: what.body.clone() };
        let id = cx.event_id();
        let mut commit = Commit::new();
        commit.calls(caller.session, &calls)?;
        for left in items_of(&loaded.conversation, &events, cx.now) {
            commit.agent_item(&left)?;
        }
        app.record_beside(&mut commit, &loaded, &events)?;
        let mut entry =
            JournalEntry::record(&mut loaded.conversation.session, id, cx.now, cause, events, vec![line]);
        entry.traceparent = trace::here();
        commit.entry(&entry, what.view.as_ref())?;
        commit.conversation(&loaded, &app.deadlines)?;
        call.keep_answer(&mut commit, &answer, &app)?;
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

fn items_of(conversation: &Conversation, events: &Events, now: Timestamp) -> Vec<AgentItem> {
    let session = &conversation.session;
    events.iter().filter_map(|event| AgentItem::of(event, session.id(), session.owner_id(), now)).collect()
}

/// What an agent says through its API.
struct Said {
    function: &'static str,
    /// SHA-256 of the body: an idempotency key remembers it.
    request_hash: String,
    summary: String,
    body: Value,
    view: Option<View>,
}
