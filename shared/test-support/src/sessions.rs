//! Stores sessions without calling functions, and creates the events of their sidecars.

use pilothouse_app::{App, FreshIds};
use pilothouse_broker::{OutgoingMessage, Receipt, Received};
use pilothouse_domain::conversation::Conversation;
use pilothouse_domain::journal::Cause;
use pilothouse_domain::queue::SessionMessageQueue;
use pilothouse_domain::session::{AgentSession, NewSession, SessionSettings};
use pilothouse_domain::text::AdapterName;
use pilothouse_domain::value::SessionBudget;
use pilothouse_domain::{AgentSessionId, EnvelopeId, Events, IdSource as _, RunId, Timestamp, UserId};
use pilothouse_store::{Commit, LoadedConversation};
use pilothouse_wire::envelope::{PROTOCOL_VERSION, Signer};
use pilothouse_wire::{Envelope, Signed};

/// A session of `owner` with default settings and a budget of `cap` dollars.
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
        settings: SessionSettings::new(AdapterName::script()),
    }
}

/// Commits a conversation with its events.
pub async fn commit_events(app: &App, mut loaded: LoadedConversation, events: Events) {
    let mut commit = Commit::new();
    app.record(&mut commit, &mut loaded, Cause::Clock, events).unwrap();
    app.store.commit(commit).await.unwrap();
}

/// Stores a session with its first run, which is not launched.
pub async fn create_session_with_run(app: &App, new: NewSession) -> (AgentSessionId, RunId) {
    let (id, mut ids) = (new.id, FreshIds);
    let mut ctx = app.domain_context(&mut ids);
    let (mut session, mut events) = AgentSession::create(new, &ctx);
    let (run, minted) = session.mint_run(&mut ctx).unwrap();
    events.extend(minted);
    let conversation = Conversation::new(session, SessionMessageQueue::default());
    commit_events(app, LoadedConversation::new(conversation), events).await;
    (id, run)
}

/// An event of a run, signed with the key of the run, as a sidecar puts it on the events queue.
pub fn sealed_event<T: serde::Serialize>(
    app: &App,
    session: AgentSessionId,
    run: RunId,
    sequence: Option<u64>,
    body: T,
) -> OutgoingMessage {
    sealed_event_at(app, (session, run), sequence, None, body)
}

/// Like [`sealed_event`], with the time at which the agent emitted the event.
pub fn sealed_event_at<T: serde::Serialize>(
    app: &App,
    (session, run): (AgentSessionId, RunId),
    sequence: Option<u64>,
    occurred_at: Option<Timestamp>,
    body: T,
) -> OutgoingMessage {
    let message_id = EnvelopeId::new(FreshIds.fresh());
    let envelope = Envelope {
        protocol_version: PROTOCOL_VERSION,
        session_id: session,
        run_id: run,
        message_id,
        sequence,
        time: Timestamp::from_millis(0),
        occurred_at,
        traceparent: None,
        body,
    };
    let key = app.secret.envelope_key(run);
    let signed = Signed::seal(&envelope, app.secret.id(), Signer::Sidecar, &key).unwrap();
    let body = serde_json::to_string(&signed).unwrap();
    OutgoingMessage::new(session.to_string(), format!("{message_id}:1"), body)
}

/// A message as its consumer receives it the first time.
pub fn received(message: OutgoingMessage) -> Received {
    let OutgoingMessage { group, body, .. } = message;
    Received { receipt: Receipt("r".to_owned()), group, body, receive_count: 1, redriven: false }
}
