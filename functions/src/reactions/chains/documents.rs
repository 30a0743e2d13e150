//! Handoff documents that arrive before or after the continuation exists (decision 34).

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_domain::DomainContext;
use pilothouse_store::{Commit, LoadedConversation};

use super::{Member, cause};

pub(super) fn record_document(app: &App, member: Member) -> Result<Option<Commit>, Problem> {
    let Member { loaded, mut chain } = member;
    let session = &loaded.conversation.session;
    let Some(document) = session.handoff_document() else { return Ok(None) };
    let events = chain.value.initiate_handoff(session.id(), document)?;
    if events.is_empty() {
        return Ok(None);
    }
    let mut commit = Commit::new();
    app.record_aggregate(&mut commit, &chain, cause("note-document"), events)?;
    Ok(Some(commit))
}

/// A session with a document that arrived late, and the session that continues its work.
pub(super) struct LateDocument {
    member: Member,
    /// `None` if the session was deleted.
    current_session: Option<LoadedConversation>,
}

impl LateDocument {
    /// Loads the current session if the chain does not know the document yet.
    pub(super) async fn load(app: &App, member: Member) -> Result<Option<Self>, Problem> {
        let session = &member.loaded.conversation.session;
        let Some(late) = session.handoff_document() else { return Ok(None) };
        if member.chain.value.clone().correct_document(session.id(), late).is_empty() {
            return Ok(None);
        }
        let current_session = app.store.conversation(member.chain.value.current_session_id()).await?;
        Ok(Some(Self { member, current_session }))
    }
}

/// Replaces the document of the continuation by a document that arrived late, and sends it to an agent that has already begun.
/// The chain records the current document, so each late document is sent once.
pub(super) fn deliver_late_document(
    app: &App,
    state: LateDocument,
    ctx: &mut DomainContext<'_>,
) -> Result<Option<Commit>, Problem> {
    let LateDocument { member: Member { loaded, mut chain }, current_session } = state;
    let session = &loaded.conversation.session;
    let Some(late) = session.handoff_document() else { return Ok(None) };
    let chain_events = chain.value.correct_document(session.id(), late);
    if chain_events.is_empty() {
        return Ok(None);
    }
    let mut commit = Commit::new();
    app.record_aggregate(&mut commit, &chain, cause("give-late-document"), chain_events)?;
    if let Some(mut current) = current_session {
        let received = current.conversation.receive_late_document(session.id(), late, ctx);
        let events = app.with_consequences(&mut current.conversation, received, ctx);
        app.record(&mut commit, &mut current, cause("give-late-document"), events)?;
    }
    Ok(Some(commit))
}
