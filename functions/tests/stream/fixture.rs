//! The parts of the control plane that live streams need, on the embedded engines.

use pilothouse_app::texts;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_app::FreshIds;
use pilothouse_app::connections::Connections;
use pilothouse_app::keyring::VerifiedToken;
use pilothouse_app::{App, queues};
use pilothouse_broker::{Broker as _, QueueOptions};
use pilothouse_domain::conversation::Conversation;
use pilothouse_domain::journal::Cause;
use pilothouse_domain::queue::SessionMessageQueue;
use pilothouse_domain::value::{ActivityItem, ActivityItemType};
use pilothouse_domain::{
    AgentSession, AgentSessionId, Deadlines, EventId, IdSource as _, SessionEvent, UserId,
};
use pilothouse_functions::realtime::{open, push, push_queue, subscribe};
use pilothouse_store::commit::LoadedConversation;
use pilothouse_store::sqlite::SqliteTable;
use pilothouse_store::{Commit, ConnectionId};
use pilothouse_test_support::{EmbeddedEngines, TestClock, new_session};
use serde_json::json;

pub(crate) struct StreamFixture {
    pub(crate) app: App,
    clock: TestClock,
    engines: EmbeddedEngines,
}

pub(crate) fn owner(name: &str) -> UserId {
    UserId::parse(name).unwrap()
}

pub(crate) fn connection(name: &str) -> ConnectionId {
    name.parse().unwrap()
}

/// Commits an entry with an event that is a status of the agent.
pub(crate) async fn commit_event(app: &App, session: AgentSessionId) {
    let loaded = app.store.conversation(session).await.unwrap().unwrap();
    commit(app, loaded, vec![SessionEvent::QuotaReset {}], Vec::new()).await;
}

async fn commit(
    app: &App,
    mut loaded: LoadedConversation,
    events: pilothouse_domain::Events,
    lines: Vec<ActivityItem>,
) -> u64 {
    let id = EventId::new(FreshIds.fresh());
    let session = &mut loaded.conversation.session;
    let entry = texts::record(session, id, app.now(), Cause::Clock, events, lines);
    let mut commit = Commit::new();
    commit.conversation(&loaded, &Deadlines::default()).unwrap();
    commit.entry(&entry, None).unwrap();
    app.store.commit(commit).await.unwrap();
    entry.sequence
}

impl StreamFixture {
    pub(crate) async fn new() -> Self {
        let clock = TestClock::system();
        let engines = EmbeddedEngines::open(clock.as_fn()).await;
        let options = QueueOptions { visibility: Duration::from_mins(3), max_receives: None };
        engines.broker.create(&queues::pushes(), options).await.unwrap();
        let app = App::new(engines.parts());
        Self { app, clock, engines }
    }

    pub(crate) const fn table(&self) -> &SqliteTable {
        &self.engines.table
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }

    /// A new session of `owner`; its journal has one entry.
    pub(crate) async fn session(&self, owner: &UserId) -> AgentSessionId {
        let new = new_session(owner, "1");
        let (id, mut ids) = (new.id, FreshIds);
        let ctx = self.app.domain_context(&mut ids);
        let (session, events) = AgentSession::create(new, &ctx);
        let conversation = Conversation::new(session, SessionMessageQueue::default());
        self.commit(LoadedConversation::new(conversation), events, Vec::new()).await;
        id
    }

    async fn commit(
        &self,
        loaded: LoadedConversation,
        events: pilothouse_domain::Events,
        lines: Vec<ActivityItem>,
    ) -> u64 {
        commit(&self.app, loaded, events, lines).await
    }

    /// Commits an entry with `lines` lines of activity, and relays it. Returns its sequence.
    pub(crate) async fn happens(&self, session: AgentSessionId, lines: usize) -> u64 {
        let sequence = self.happens_unseen(session, lines).await;
        if push_queue::is_watched(&self.app.store, &session.into()).await.unwrap() {
            let message = push_queue::message(&session.into()).unwrap();
            let sent = self.app.broker.send(&queues::pushes(), vec![message]).await.unwrap();
            assert!(sent.failed.is_empty());
        }
        sequence
    }

    /// Commits an entry without relaying it.
    pub(crate) async fn happens_unseen(&self, session: AgentSessionId, lines: usize) -> u64 {
        let loaded = self.app.store.conversation(session).await.unwrap().unwrap();
        let line = |n| ActivityItem::new(ActivityItemType::Notice, &format!("line {n}"), self.app.now());
        self.commit(loaded, pilothouse_domain::Events::default(), (0..lines).map(line).collect()).await
    }

    /// Commits an entry with an event that is a status of the agent.
    pub(crate) async fn happens_event(&self, session: AgentSessionId) {
        commit_event(&self.app, session).await;
    }

    /// Opens a connection of `owner` with a token that is valid for an hour.
    pub(crate) async fn open(&self, name: &str, owner: &UserId) -> ConnectionId {
        let id = connection(name);
        let ends = self.app.now() + Duration::from_hours(1);
        open::accept_connection(&self.app, &id, VerifiedToken { owner: owner.clone(), ends }).await.unwrap();
        id
    }

    pub(crate) async fn subscribe(
        &self,
        connections: &Arc<dyn Connections>,
        id: &ConnectionId,
        session: AgentSessionId,
        after: Option<&str>,
    ) {
        let mut body = json!({ "action": "subscribe", "sessionId": session });
        if let Some(after) = after {
            body["after"] = after.into();
        }
        subscribe::subscribe_connection(&self.app, &**connections, id, &body.to_string()).await.unwrap();
    }

    /// Processes the pushes queue like the event source of the function, until it is empty. Returns the number of failed messages.
    pub(crate) async fn push_all(&self, connections: &Arc<dyn Connections>) -> usize {
        let mut failed = 0;
        loop {
            let batch = self.app.broker.receive(&queues::pushes(), 10, Duration::ZERO).await.unwrap();
            if batch.is_empty() {
                return failed;
            }
            let mut outcome = push::process(&self.app, connections, batch).await;
            for (receipts, pause) in &mut outcome.retry {
                failed += receipts.len();
                *pause = Duration::ZERO;
            }
            pilothouse_app::batch::settle(&*self.app.broker, &queues::pushes(), outcome).await.unwrap();
        }
    }
}
