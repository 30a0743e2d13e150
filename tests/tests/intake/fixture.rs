//! The functions on embedded engines, without a server: one session, a runtime that knows no process, and a settable clock.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use pilothouse_app::{App, Parts, queues};
use pilothouse_broker::{MAX_BATCH, OutgoingMessage};
use pilothouse_domain::value::Capabilities;
use pilothouse_domain::{AgentSession, AgentSessionId, RunId, Timestamp, UserId};
use pilothouse_functions::events::{clock, intake};
use pilothouse_runtime::ProcessState;
use pilothouse_store::blob::{BlobError, BlobKey, Blobs};
use pilothouse_store::{Commit, ParkedEnvelope, Store};
use pilothouse_test_support::{
    EmbeddedEngines, FaultyTable, InertRuntime, TestClock, create_session_with_run, new_session,
    sealed_event, sealed_event_at,
};
use pilothouse_wire::RawEvent;

/// Blobs on a disk that can be full.
pub(crate) struct DiskBlobs {
    blobs: Arc<dyn Blobs>,
    is_full: AtomicBool,
}

impl DiskBlobs {
    pub(crate) fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::SeqCst);
    }
}

#[async_trait]
impl Blobs for DiskBlobs {
    async fn put(&self, key: &BlobKey, content: Bytes) -> Result<(), BlobError> {
        if self.is_full.load(Ordering::SeqCst) {
            return Err(BlobError::Engine(Box::new(io::Error::from(io::ErrorKind::StorageFull))));
        }
        self.blobs.put(key, content).await
    }

    async fn get(&self, key: &BlobKey) -> Result<Option<Bytes>, BlobError> {
        self.blobs.get(key).await
    }

    async fn size(&self, key: &BlobKey) -> Result<Option<u64>, BlobError> {
        self.blobs.size(key).await
    }
}

pub(crate) struct IntakeFixture {
    pub(crate) app: App,
    pub(crate) table: FaultyTable,
    pub(crate) blobs: Arc<DiskBlobs>,
    clock: TestClock,
    _engines: EmbeddedEngines,
}

impl IntakeFixture {
    pub(crate) async fn open() -> Self {
        Self::with_processes(ProcessState::Unknown).await
    }

    /// The runtime reports this state for every process.
    pub(crate) async fn with_processes(state: ProcessState) -> Self {
        let clock = TestClock::system();
        let engines = EmbeddedEngines::open(clock.as_fn()).await;
        let table = FaultyTable::new(engines.table.clone());
        let parts = engines.parts();
        let blobs = Arc::new(DiskBlobs { blobs: Arc::clone(&parts.blobs), is_full: AtomicBool::default() });
        let app = App::new(Parts {
            store: Store::new(Arc::new(table.clone())),
            blobs: blobs.clone(),
            runtime: Arc::new(InertRuntime { state, ..InertRuntime::with_workspace("here") }),
            ..parts
        });
        Self { app, table, blobs, clock, _engines: engines }
    }

    /// Advances the clock until every run counts as silent.
    pub(crate) fn silent_for_too_long(&self) {
        self.later(self.app.deadlines.silence_timeout + Duration::from_secs(1));
    }

    pub(crate) fn later(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// Processes the event as well.
    pub(crate) async fn hears(&self, id: AgentSessionId, run: RunId, sequence: u64, event: RawEvent) {
        let message = self.message(id, run, sequence, event);
        self.app.broker.send(&queues::events(), vec![message]).await.unwrap();
        self.takes_events().await;
    }

    /// Processes chunks of a log together, by their sequences and the times at which the agent emitted them.
    pub(crate) async fn hears_chunks(
        &self,
        run: (AgentSessionId, RunId),
        chunks: &[(u64, Option<Timestamp>)],
    ) {
        let messages = chunks.iter().map(|(sequence, at)| {
            let chunk = RawEvent::LogChunk { stream: "agent".to_owned(), content: "x".to_owned() };
            sealed_event_at(&self.app, run, Some(*sequence), *at, chunk)
        });
        self.app.broker.send(&queues::events(), messages.collect()).await.unwrap();
        self.takes_events().await;
    }

    /// Queues a heartbeat without processing it.
    pub(crate) async fn heartbeat(&self, id: AgentSessionId, run: RunId) {
        let message = sealed_event(&self.app, id, run, None, RawEvent::Heartbeat { disk_full: false });
        self.app.broker.send(&queues::events(), vec![message]).await.unwrap();
    }

    pub(crate) async fn takes_events(&self) {
        loop {
            let batch = self.app.broker.receive(&queues::events(), MAX_BATCH, Duration::ZERO).await.unwrap();
            if batch.is_empty() {
                return;
            }
            intake::process_and_settle(&self.app, batch).await.unwrap();
        }
    }

    /// Lets time pass while the clock ticks.
    pub(crate) async fn watches(&self, time: Duration) {
        let step = Duration::from_secs(3);
        for _ in 0..time.as_secs().div_ceil(step.as_secs()) {
            self.later(step);
            clock::tick(&self.app).await.unwrap();
        }
    }

    /// The clock ticks and the intake processes queued events meanwhile.
    pub(crate) async fn works(&self, time: Duration) {
        let step = Duration::from_secs(3);
        for _ in 0..time.as_secs().div_ceil(step.as_secs()) {
            self.watches(step).await;
            self.takes_events().await;
        }
    }

    pub(crate) async fn session(&self, id: AgentSessionId) -> AgentSession {
        self.app.store.session(id).await.unwrap().unwrap()
    }

    /// The agent has begun the turn `t-1`: two events of its run are applied.
    pub(crate) async fn running_session(&self) -> (AgentSessionId, RunId) {
        let new = new_session(&UserId::parse("owner").unwrap(), "10");
        let (id, run) = create_session_with_run(&self.app, new).await;
        let ready = RawEvent::SidecarReady {
            sidecar_version: "1".to_owned(),
            adapter: "none".to_owned(),
            capabilities: Capabilities::default(),
        };
        let turn = serde_json::json!({ "type": "turn_started", "turnId": "t-1" });
        let turn = serde_json::from_value(turn).unwrap();
        let messages = vec![self.message(id, run, 1, ready), self.message(id, run, 2, turn)];
        self.app.broker.send(&queues::events(), messages).await.unwrap();
        let batch = self.app.broker.receive(&queues::events(), MAX_BATCH, Duration::ZERO).await.unwrap();
        intake::process_and_settle(&self.app, batch).await.unwrap();
        (id, run)
    }

    /// Stores the state after an intake was killed at a commit that the transaction limit forced early: the next envelopes of the run are
    /// parked, without a gap before them.
    pub(crate) async fn left_by_an_intake(&self, session: AgentSessionId, events: &[RawEvent]) {
        let mut loaded = self.app.store.conversation(session).await.unwrap().unwrap();
        let run = loaded.conversation.session.run().unwrap();
        let (run, next) = (run.id, run.inbox.next());
        let mut commit = Commit::new();
        for (sequence, event) in (next..).zip(events) {
            loaded.conversation.session.park(sequence);
            let body = serde_json::to_string(event).unwrap();
            let parked = ParkedEnvelope { body, occurred_at: None };
            commit.park(session, run, sequence, &parked, self.app.now()).unwrap();
        }
        commit.conversation(&loaded, &self.app.deadlines).unwrap();
        self.app.store.commit(commit).await.unwrap();
    }

    fn message(&self, session: AgentSessionId, run: RunId, sequence: u64, body: RawEvent) -> OutgoingMessage {
        sealed_event(&self.app, session, run, Some(sequence), body)
    }
}
