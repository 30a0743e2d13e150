//! The continuation of an exhausted session. One transaction creates it, adds it to the chain, and transfers the queued messages
//! and the slot (decisions 21, 30, 34).

use pilothouse_app::http::Problem;
use pilothouse_app::journal_views;
use pilothouse_app::{App, FreshIds};
use pilothouse_domain::chain::ChainError;
use pilothouse_domain::value::{HandoffDocument, HandoffSource};
use pilothouse_domain::{AgentSession, Events};
use pilothouse_store::{Commit, LoadedConversation};
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::AssistantContent;

use super::{Member, cause};

/// The most messages of the agent that a synthesized document quotes.
const LAST_WORDS: usize = 5;
/// The journal entries that are searched for these messages.
const LOOKED_AT: usize = 30;

const FUNCTION: &str = "hand-over";

/// Hands the work of a session whose run ended to a new session.
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
    let mut ctx = app.domain_context(&mut ids);
    let handed = match chain.value.hand_over(&mut from.conversation, &document, &mut ctx) {
        Ok(handed) => handed,
        Err(full @ ChainError::Full { .. }) => {
            tracing::warn!(chain = %chain.value.id(), %full, "the chain is full; the work is not handed over");
            return Ok(None);
        }
        Err(other) => return Err(other.into()),
    };
    of_predecessor.extend(handed.of_predecessor);
    let mut to = LoadedConversation::new(handed.continuation);
    let mut of_continuation = app.with_consequences(&mut to.conversation, handed.of_continuation, &mut ctx);
    let before = from.conversation.session.id();
    let (_, allocated) = pool.value.transfer(before, &mut to.conversation.session, &mut ctx)?;
    of_continuation.extend(allocated);

    let mut commit = Commit::new();
    app.record_aggregate(&mut commit, &chain, cause(FUNCTION), handed.of_chain)?;
    app.record(&mut commit, &mut from, cause(FUNCTION), of_predecessor)?;
    app.record(&mut commit, &mut to, cause(FUNCTION), of_continuation)?;
    commit.pool(&owner, &pool)?;
    if let Some(worker) = home {
        // The continuation needs the directory on that worker (decision 23).
        commit.home(to.conversation.session.id(), &worker)?;
    }
    Ok(Some(commit))
}

/// Builds a document from the records if the agent wrote none (decision 34).
async fn synthesize(app: &App, from: &mut LoadedConversation) -> Result<Events, Problem> {
    let session = &mut from.conversation.session;
    if session.handoff_document().is_some() {
        return Ok(Events::new());
    }
    let last_messages = last_messages(app, session).await?;
    let document = HandoffDocument::synthesized(HandoffSource { session, last_messages: &last_messages });
    let mut ids = FreshIds;
    Ok(session.record_handoff(document, &mut app.domain_context(&mut ids)))
}

/// Returns the last messages of the agent, oldest first.
async fn last_messages(app: &App, session: &AgentSession) -> Result<Vec<String>, Problem> {
    let entries = app.store.last_messages(session.id(), LOOKED_AT).await?;
    let said = entries.iter().filter_map(journal_views::raw_event).filter_map(|event| match event {
        RawEvent::AssistantMessage { content: AssistantContent::Text { text }, .. } => {
            Some(text.text().into_owned())
        }
        _ => None,
    });
    let mut words: Vec<_> = said.filter(|text| !text.trim().is_empty()).take(LAST_WORDS).collect();
    words.reverse();
    Ok(words)
}
