//! The control plane on its embedded engines, as far as live streams need it.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_broker::{Broker as _, QueueOptions};
use pilothouse_domain::conversation::Conversation;
use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::queue::SessionMessageQueue;
use pilothouse_domain::value::{ActivityItem, ActivityItemType};
use pilothouse_domain::{AgentSession, AgentSessionId, Deadlines, EventId, IdSource as _, UserId};
use pilothouse_functions::app::FreshIds;
use pilothouse_functions::edge::auth::Verified;
use pilothouse_functions::stream::connections::Connections;
use pilothouse_functions::stream::{open, push, subscribe, wake};
use pilothouse_functions::{App, queues};
use pilothouse_stage::{Ground, TestClock, new_session};
use pilothouse_store::commit::LoadedConversation;
use pilothouse_store::{Commit, ConnectionId};
use serde_json::json;

pub(crate) struct Stage {
    pub(crate) app: App,
    clock: TestClock,
    _ground: Ground,
}

pub(crate) fn owner(name: &str) -> UserId {
    UserId::parse(name).unwrap()
}

pub(crate) fn connection(name: &str) -> ConnectionId {
    name.parse().unwrap()
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let clock = TestClock::system();
        let ground = Ground::open(clock.shown()).await;
        let options = QueueOptions { visibility: Duration::from_mins(3), max_receives: None };
        ground.broker.create(&queues::pushes(), options).await.unwrap();
        let app = App::new(ground.parts());
        Self { app, clock, _ground: ground }
    }

    /// Lets time pass.
    pub(crate) fn pass(&self, time: Duration) {
        self.clock.pass(time);
    }

    /// A new session of `owner`; its journal has one entry.
    pub(crate) async fn session(&self, owner: &UserId) -> AgentSessionId {
        let new = new_session(owner, "1");
        let (id, mut ids) = (new.id, FreshIds);
        let cx = self.app.occasion(&mut ids);
        let (session, events) = AgentSession::create(new, &cx);
        let conversation = Conversation::new(session, SessionMessageQueue::default());
        self.commit(LoadedConversation::new(conversation), events, Vec::new()).await;
        id
    }

    async fn commit(
        &self,
        mut loaded: LoadedConversation,
        events: pilothouse_domain::Events,
        lines: Vec<ActivityItem>,
    ) -> u64 {
        let id = EventId::new(FreshIds.fresh());
        let session = &mut loaded.conversation.session;
        let entry = JournalEntry::record(session, id, self.app.now(), Cause::Clock, events, lines);
        let mut commit = Commit::new();
        commit.conversation(&loaded, &Deadlines::default()).unwrap();
        commit.entry(&entry, None).unwrap();
        self.app.store.commit(commit).await.unwrap();
        entry.sequence
    }

    /// Commits an entry with `lines` lines of activity, and hands it on as the relay does. Its sequence.
    pub(crate) async fn happens(&self, session: AgentSessionId, lines: usize) -> u64 {
        let sequence = self.happens_unseen(session, lines).await;
        if wake::is_watched(&self.app.store, session).await.unwrap() {
            let message = wake::message(session).unwrap();
            let sent = self.app.broker.send(&queues::pushes(), vec![message]).await.unwrap();
            assert!(sent.failed.is_empty());
        }
        sequence
    }

    /// Commits an entry that the relay has not handed on yet.
    pub(crate) async fn happens_unseen(&self, session: AgentSessionId, lines: usize) -> u64 {
        let loaded = self.app.store.conversation(session).await.unwrap().unwrap();
        let line = |n| ActivityItem::new(ActivityItemType::Notice, &format!("line {n}"), self.app.now());
        self.commit(loaded, pilothouse_domain::Events::default(), (0..lines).map(line).collect()).await
    }

    /// A connection of `owner` whose token is good for an hour.
    pub(crate) async fn open(&self, name: &str, owner: &UserId) -> ConnectionId {
        let id = connection(name);
        let ends = self.app.now() + Duration::from_hours(1);
        open::handle(&self.app, &id, Verified { owner: owner.clone(), ends }).await.unwrap();
        id
    }

    /// Says that a connection wants to follow a session.
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
        subscribe::handle(&self.app, &**connections, id, &body.to_string()).await.unwrap();
    }

    /// Takes the queue of pushes as the event source of the function does, until it is empty. How many messages failed.
    pub(crate) async fn push_all(&self, connections: &Arc<dyn Connections>) -> usize {
        let mut failed = 0;
        loop {
            let batch = self.app.broker.receive(&queues::pushes(), 10, Duration::ZERO).await.unwrap();
            if batch.is_empty() {
                return failed;
            }
            let mut settlement = push::process(&self.app, connections, batch).await;
            for (receipts, pause) in &mut settlement.again {
                failed += receipts.len();
                *pause = Duration::ZERO;
            }
            queues::settle(&*self.app.broker, &queues::pushes(), settlement).await.unwrap();
        }
    }
}
