//! Documents that come before the continuation is there, and after (ruling 34).

use pilothouse_store::Commit;

use super::{Member, cause};
use crate::app::{App, FreshIds};
use crate::edge::Problem;

/// The chain shows the document as soon as it is there.
pub(super) fn note(app: &App, member: Member) -> Result<Option<Commit>, Problem> {
    let Member { loaded, mut chain } = member;
    let session = &loaded.conversation.session;
    let Some(document) = session.handoff_document() else { return Ok(None) };
    let events = chain.value.initiate_handoff(session.id(), document)?;
    if events.is_empty() {
        return Ok(None);
    }
    let mut commit = Commit::new();
    app.record_owned(&mut commit, &chain, cause("note-document"), events)?;
    Ok(Some(commit))
}

/// A document that came after the continuation was created takes the place of the one that was given; an agent that has
/// begun is told. The chain knows which document was given, so that this happens once.
pub(super) async fn give_late(app: &App, member: Member) -> Result<Option<Commit>, Problem> {
    let Member { loaded, mut chain } = member;
    let session = &loaded.conversation.session;
    let Some(late) = session.handoff_document() else { return Ok(None) };
    let of_chain = chain.value.correct_document(session.id(), late);
    if of_chain.is_empty() {
        return Ok(None);
    }
    let mut commit = Commit::new();
    app.record_owned(&mut commit, &chain, cause("give-late-document"), of_chain)?;
    if let Some(mut current) = app.store.conversation(chain.value.current_session_id()).await? {
        let mut ids = FreshIds;
        let mut cx = app.occasion(&mut ids);
        let told = current.conversation.take_late_document(session.id(), late, &mut cx);
        let events = app.follow(&mut current.conversation, told, &mut cx);
        app.record(&mut commit, &mut current, cause("give-late-document"), events)?;
    }
    Ok(Some(commit))
}
