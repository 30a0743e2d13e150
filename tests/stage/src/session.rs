//! Sessions that are there without any function, and what their sidecars would send.

use pilothouse_broker::Outgoing;
use pilothouse_domain::conversation::Conversation;
use pilothouse_domain::journal::Cause;
use pilothouse_domain::queue::SessionMessageQueue;
use pilothouse_domain::session::{AgentSession, NewSession, SessionSettings};
use pilothouse_domain::value::SessionBudget;
use pilothouse_domain::{AgentSessionId, EnvelopeId, Events, IdSource as _, RunId, Timestamp, UserId};
use pilothouse_functions::App;
use pilothouse_functions::app::FreshIds;
use pilothouse_store::{Commit, LoadedConversation};
use pilothouse_wire::envelope::{PROTOCOL_VERSION, Signer};
use pilothouse_wire::{Envelope, Signed};

/// A session of `owner` with nothing special about it, and a budget of `cap` dollars.
pub fn new_session(owner: &UserId, cap: &str) -> NewSession {
    NewSession {
        id: AgentSessionId::new(FreshIds.fresh()),
        owner_id: owner.clone(),
        template_id: None,
        name: None,
        working_directory: "/tmp".to_owned().try_into().unwrap(),
        objective: "whatever happens".to_owned().try_into().unwrap(),
        model_id: "m".to_owned().try_into().unwrap(),
        budget: SessionBudget::new(cap.parse().unwrap(), 80).unwrap(),
        auto_continue: None,
        settings: SessionSettings::default(),
    }
}

/// Keeps a conversation with what happened to it.
pub async fn keep(app: &App, mut loaded: LoadedConversation, events: Events) {
    let mut commit = Commit::new();
    app.record(&mut commit, &mut loaded, Cause::Clock, events).unwrap();
    app.store.commit(commit).await.unwrap();
}

/// A session with its first run, which nobody has launched.
pub async fn with_run(app: &App, new: NewSession) -> (AgentSessionId, RunId) {
    let (id, mut ids) = (new.id, FreshIds);
    let mut cx = app.occasion(&mut ids);
    let (mut session, mut events) = AgentSession::create(new, &cx);
    let (run, minted) = session.mint_run(&mut cx).unwrap();
    events.extend(minted);
    let conversation = Conversation::new(session, SessionMessageQueue::default());
    keep(app, LoadedConversation::new(conversation), events).await;
    (id, run)
}

/// An event of a run, sealed with its key, as its sidecar puts it on the events queue.
pub fn sealed<T: serde::Serialize>(
    app: &App,
    session: AgentSessionId,
    run: RunId,
    sequence: Option<u64>,
    body: T,
) -> Outgoing {
    let message_id = EnvelopeId::new(FreshIds.fresh());
    let envelope = Envelope {
        protocol_version: PROTOCOL_VERSION,
        session_id: session,
        run_id: run,
        message_id,
        sequence,
        time: Timestamp::from_millis(0),
        traceparent: None,
        body,
    };
    let key = app.secret.envelope_key(run);
    let signed = Signed::seal(&envelope, app.secret.id(), Signer::Sidecar, &key).unwrap();
    let body = serde_json::to_string(&signed).unwrap();
    Outgoing::new(session.to_string(), format!("{message_id}:1"), body)
}
