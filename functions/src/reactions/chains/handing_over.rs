//! The continuation of an exhausted session: created, attached, and given the messages that wait and the slot, in one
//! transaction (rulings 21, 30, 34).

use pilothouse_domain::chain::ChainError;
use pilothouse_domain::value::{HandoffDocument, Remembered};
use pilothouse_domain::{AgentSession, Events};
use pilothouse_store::{Commit, LoadedConversation};
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::AssistantContent;

use super::{Member, cause};
use crate::app::{App, FreshIds};
use crate::edge::Problem;
use crate::records::view;

/// What a synthesized document quotes of the agent's last messages, at most.
const LAST_WORDS: usize = 5;
/// Entries that are looked at for them.
const LOOKED_AT: usize = 30;

const FUNCTION: &str = "hand-over";

/// Hands the work of a session whose run is over to a new one.
pub(super) async fn hand_over(app: &App, member: Member) -> Result<Option<Commit>, Problem> {
    let Member { loaded: mut from, mut chain } = member;
    let owner = from.conversation.session.owner_id().clone();
    let mut of_predecessor = synthesize(app, &mut from).await?;
    let Some(document) = from.conversation.session.handoff_document().cloned() else {
        return Err(Problem::internal("a handoff without a document"));
    };
    let mut pool = app.store.pool(&owner).await?;
    let home = app.store.home(from.conversation.session.id()).await?;

    let mut ids = FreshIds;
    let mut cx = app.occasion(&mut ids);
    let handed = match chain.value.hand_over(&mut from.conversation, &document, &mut cx) {
        Ok(handed) => handed,
        Err(full @ ChainError::Full { .. }) => {
            tracing::warn!(chain = %chain.value.id(), %full, "the work stays where it is");
            return Ok(None);
        }
        Err(other) => return Err(other.into()),
    };
    of_predecessor.extend(handed.of_predecessor);
    let mut to = LoadedConversation::new(handed.continuation);
    let mut of_continuation = app.follow(&mut to.conversation, handed.of_continuation, &mut cx);
    let before = from.conversation.session.id();
    let (_, allocated) = pool.value.transfer(before, &mut to.conversation.session, &mut cx)?;
    of_continuation.extend(allocated);

    let mut commit = Commit::new();
    app.record_owned(&mut commit, &chain, cause(FUNCTION), handed.of_chain)?;
    app.record(&mut commit, &mut from, cause(FUNCTION), of_predecessor)?;
    app.record(&mut commit, &mut to, cause(FUNCTION), of_continuation)?;
    commit.pool(&owner, &pool)?;
    if let Some(worker) = home {
        // Its directory is there (ruling 23).
        commit.home(to.conversation.session.id(), &worker)?;
    }
    Ok(Some(commit))
}

/// A document from what is recorded, where the agent left none (ruling 34).
async fn synthesize(app: &App, from: &mut LoadedConversation) -> Result<Events, Problem> {
    let session = &mut from.conversation.session;
    if session.handoff_document().is_some() {
        return Ok(Events::new());
    }
    let last_words = last_words(app, session).await?;
    let document = HandoffDocument::synthesized(Remembered { session, last_words: &last_words });
    let mut ids = FreshIds;
    Ok(session.record_handoff(document, &mut app.occasion(&mut ids)))
}

/// What the agent said last, oldest first.
async fn last_words(app: &App, session: &AgentSession) -> Result<Vec<String>, Problem> {
    let entries = app.store.last_messages(session.id(), LOOKED_AT).await?;
    let said = entries.iter().filter_map(view::raw_event).filter_map(|event| match event {
        RawEvent::AssistantMessage { content: AssistantContent::Text { text }, .. } => {
            Some(text.text().into_owned())
        }
        _ => None,
    });
    let mut words: Vec<_> = said.filter(|text| !text.trim().is_empty()).take(LAST_WORDS).collect();
    words.reverse();
    Ok(words)
}
