//! Handoff documents that arrive before or after the continuation exists (decision 34).

use pilothouse_app::http::Problem;
use pilothouse_app::{App, FreshIds};
use pilothouse_store::Commit;

use super::{Member, cause};

/// Records a document in the chain as soon as it arrives.
pub(super) fn note(app: &App, member: Member) -> Result<Option<Commit>, Problem> {
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

/// Replaces the document of the continuation by a document that arrived late, and sends it to an agent that has already begun.
/// The chain records the current document, so each late document is sent once.
pub(super) async fn give_late(app: &App, member: Member) -> Result<Option<Commit>, Problem> {
    let Member { loaded, mut chain } = member;
    let session = &loaded.conversation.session;
    let Some(late) = session.handoff_document() else { return Ok(None) };
    let of_chain = chain.value.correct_document(session.id(), late);
    if of_chain.is_empty() {
        return Ok(None);
    }
    let mut commit = Commit::new();
    app.record_aggregate(&mut commit, &chain, cause("give-late-document"), of_chain)?;
    if let Some(mut current) = app.store.conversation(chain.value.current_session_id()).await? {
        let mut ids = FreshIds;
        let mut ctx = app.domain_context(&mut ids);
        let told = current.conversation.receive_late_document(session.id(), late, &mut ctx);
        let events = app.with_consequences(&mut current.conversation, told, &mut ctx);
        app.record(&mut commit, &mut current, cause("give-late-document"), events)?;
    }
    Ok(Some(commit))
}
