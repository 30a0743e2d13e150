//! The control plane on its embedded engines, as far as live streams need it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use pilothouse_broker::Broker as _;
use pilothouse_broker::embedded::{self, EmbeddedBroker};
use pilothouse_domain::conversation::Conversation;
use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::queue::SessionMessageQueue;
use pilothouse_domain::session::{NewSession, SessionSettings};
use pilothouse_domain::value::{ActivityItem, ActivityItemType, SessionBudget};
use pilothouse_domain::{
    AgentSession, AgentSessionId, Deadlines, EventId, IdSource as _, Occasion, RunId, Timestamp, UserId,
};
use pilothouse_functions::app::FreshIds;
use pilothouse_functions::edge::Keyring;
use pilothouse_functions::edge::auth::Verified;
use pilothouse_functions::stream::connections::Connections;
use pilothouse_functions::stream::{Wake, Wakes, open, push, subscribe, wake};
use pilothouse_functions::{App, Parts, queues};
use pilothouse_runtime::{AgentRuntime, LaunchError, ProcessState, RuntimeCapabilities, StopError, StopMode};
use pilothouse_sqlite::{Database, system_clock};
use pilothouse_store::blob::FileBlobs;
use pilothouse_store::commit::LoadedConversation;
use pilothouse_store::sqlite::{self, SqliteTable};
use pilothouse_store::{Commit, ConnectionId, Store};
use pilothouse_wire::RootSecret;
use pilothouse_wire::launch::LaunchRequest;
use serde_json::json;
use tempfile::TempDir;

/// Runs nothing: no test here starts a run.
struct NoRuntime;

#[async_trait]
impl AgentRuntime for NoRuntime {
    async fn launch(&self, _: LaunchRequest) -> Result<(), LaunchError> {
        Ok(())
    }
    async fn stop(&self, _: AgentSessionId, _: RunId, _: StopMode) -> Result<(), StopError> {
        Ok(())
    }
    async fn state(&self, _: RunId) -> ProcessState {
        ProcessState::Unknown
    }
    fn capabilities(&self) -> RuntimeCapabilities {
        RuntimeCapabilities { durable_workspace: false, placement: "nowhere".to_owned() }
    }
}

/// In `aws` no stream tails the journal.
struct NoWakes;

#[async_trait]
impl Wake for NoWakes {
    async fn grown(&mut self) -> bool {
        false
    }
}

impl Wakes for NoWakes {
    fn watch(&self, _: AgentSessionId) -> Box<dyn Wake> {
        Box::new(Self)
    }
}

pub(crate) struct Stage {
    pub(crate) app: App,
    ahead: Arc<AtomicI64>,
    _folder: TempDir,
}

pub(crate) fn owner(name: &str) -> UserId {
    UserId::parse(name).unwrap()
}

pub(crate) fn connection(name: &str) -> ConnectionId {
    name.parse().unwrap()
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let ahead = Arc::new(AtomicI64::new(0));
        let (system, offset) = (system_clock(), Arc::clone(&ahead));
        let clock: pilothouse_sqlite::Clock =
            Arc::new(move || Timestamp::from_millis(system().as_millis() + offset.load(Ordering::SeqCst)));
        let db = Database::open(folder.path().join("db"), &[sqlite::SCHEMA, embedded::SCHEMA]).unwrap();
        let broker = EmbeddedBroker::open(db.clone(), Arc::clone(&clock)).await.unwrap();
        let visibility = Duration::from_mins(3);
        let options = pilothouse_broker::QueueOptions { visibility, max_receives: None };
        broker.create(&queues::pushes(), options).await.unwrap();
        let app = App::new(Parts {
            store: Store::new(Arc::new(SqliteTable::new(db, Arc::clone(&clock)))),
            blobs: Arc::new(FileBlobs::open(folder.path().join("blobs")).unwrap()),
            broker: Arc::new(broker),
            runtime: Arc::new(NoRuntime),
            keyring: Keyring::new("issuer", "audience", HashMap::new()),
            secret: RootSecret::new("test", vec![7; 32]).unwrap(),
            deadlines: Deadlines::default(),
            clock,
            wakes: Arc::new(NoWakes),
            fleet: None,
            outside: pilothouse_functions::outside::Outside::default(),
        });
        Self { app, ahead, _folder: folder }
    }

    /// Lets time pass.
    pub(crate) fn pass(&self, time: Duration) {
        self.ahead.fetch_add(i64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
    }

    /// A new session of `owner`; its journal has one entry.
    pub(crate) async fn session(&self, owner: &UserId) -> AgentSessionId {
        let mut ids = FreshIds;
        let id = AgentSessionId::new(ids.fresh());
        let cx = Occasion::new(self.app.now(), Deadlines::default(), &mut ids);
        let new = NewSession {
            id,
            owner_id: owner.clone(),
            template_id: None,
            name: None,
            working_directory: "/w".to_owned().try_into().unwrap(),
            objective: "Do it".to_owned().try_into().unwrap(),
            model_id: "m".to_owned().try_into().unwrap(),
            budget: SessionBudget::new("1".parse().unwrap(), 80).unwrap(),
            auto_continue: None,
            settings: SessionSettings::default(),
        };
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
