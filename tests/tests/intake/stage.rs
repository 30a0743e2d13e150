//! The functions on embedded engines, without a server: one session, a runtime that knows no process, and a clock
//! that can be made to jump.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use pilothouse_broker::embedded::{self, EmbeddedBroker};
use pilothouse_broker::{MAX_BATCH, Outgoing};
use pilothouse_cli::keys::{AUDIENCE, ISSUER};
use pilothouse_domain::conversation::Conversation;
use pilothouse_domain::journal::Cause;
use pilothouse_domain::queue::SessionMessageQueue;
use pilothouse_domain::session::{AgentSession, NewSession, SessionSettings};
use pilothouse_domain::text::{ModelId, Objective, WorkingDirectory};
use pilothouse_domain::value::{Capabilities, SessionBudget};
use pilothouse_domain::{AgentSessionId, Deadlines, EnvelopeId, IdSource as _, RunId, Timestamp, UserId};
use pilothouse_functions::app::FreshIds;
use pilothouse_functions::edge::Keyring;
use pilothouse_functions::stream::{Wake, Wakes};
use pilothouse_functions::{App, Parts, intake, queues};
use pilothouse_runtime::{AgentRuntime, LaunchError, ProcessState, RuntimeCapabilities, StopError, StopMode};
use pilothouse_sqlite::{Database, system_clock};
use pilothouse_store::blob::FileBlobs;
use pilothouse_store::sqlite::{self, SqliteTable};
use pilothouse_store::{Commit, LoadedConversation, ParkedEnvelope, Store};
use pilothouse_wire::envelope::{PROTOCOL_VERSION, Signer};
use pilothouse_wire::launch::LaunchRequest;
use pilothouse_wire::{Envelope, RawEvent, RootSecret, Signed};

use crate::meddling::Meddling;

pub(crate) struct Stage {
    pub(crate) app: App,
    pub(crate) table: Meddling,
    ahead: Arc<AtomicU64>,
    _data: tempfile::TempDir,
}

impl Stage {
    pub(crate) async fn open() -> Self {
        let data = tempfile::tempdir().unwrap();
        let ahead = Arc::new(AtomicU64::new(0));
        let clock: pilothouse_sqlite::Clock = {
            let (ahead, system) = (Arc::clone(&ahead), system_clock());
            Arc::new(move || system() + Duration::from_millis(ahead.load(Ordering::SeqCst)))
        };
        let file = data.path().join("pilothouse.db");
        let db = Database::open(&file, &[sqlite::SCHEMA, embedded::SCHEMA]).unwrap();
        let broker = EmbeddedBroker::open(db.clone(), Arc::clone(&clock)).await.unwrap();
        queues::create(&broker).await.unwrap();
        let table = Meddling::new(SqliteTable::new(db, Arc::clone(&clock)));
        let app = App::new(Parts {
            store: Store::new(Arc::new(table.clone())),
            blobs: Arc::new(FileBlobs::open(data.path().join("blobs")).unwrap()),
            broker: Arc::new(broker),
            runtime: Arc::new(LostProcess),
            keyring: Keyring::new(ISSUER, AUDIENCE, HashMap::new()),
            secret: RootSecret::new("k", vec![1; 32]).unwrap(),
            deadlines: Deadlines::default(),
            clock,
            wakes: Arc::new(NoWakes),
            fleet: None,
            outside: pilothouse_functions::outside::Outside::default(),
        });
        Self { app, table, ahead, _data: data }
    }

    /// Jumps to where nothing was heard of any run for too long.
    pub(crate) fn silent_for_too_long(&self) {
        self.later(self.app.deadlines.silent + Duration::from_secs(1));
    }

    /// Jumps ahead by so much.
    pub(crate) fn later(&self, by: Duration) {
        self.ahead.fetch_add(u64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }

    /// An event of the agent arrives.
    pub(crate) async fn hears(&self, id: AgentSessionId, run: RunId, sequence: u64, event: RawEvent) {
        let message = self.message(id, run, sequence, event);
        self.app.broker.send(&queues::events(), vec![message]).await.unwrap();
        let batch = self.app.broker.receive(&queues::events(), MAX_BATCH, Duration::ZERO).await.unwrap();
        intake::handle(&self.app, batch).await.unwrap();
    }

    /// A session whose agent has begun the turn `t-1`: two events of its run are applied.
    pub(crate) async fn running_session(&self) -> (AgentSessionId, RunId) {
        let mut ids = FreshIds;
        let id = AgentSessionId::new(ids.fresh());
        let mut cx = self.app.occasion(&mut ids);
        let new = NewSession {
            id,
            owner_id: UserId::parse("owner").unwrap(),
            template_id: None,
            name: None,
            working_directory: WorkingDirectory::parse("/tmp").unwrap(),
            objective: Objective::parse("whatever happens").unwrap(),
            model_id: ModelId::parse("m").unwrap(),
            budget: SessionBudget::new("10".parse().unwrap(), 80).unwrap(),
            auto_continue: None,
            settings: SessionSettings::default(),
        };
        let (mut session, mut events) = AgentSession::create(new, &cx);
        let (run, minted) = session.mint_run(&mut cx).unwrap();
        events.extend(minted);
        let mut loaded = LoadedConversation::new(Conversation::new(session, SessionMessageQueue::default()));
        let mut commit = Commit::new();
        self.app.record(&mut commit, &mut loaded, Cause::Clock, events).unwrap();
        self.app.store.commit(commit).await.unwrap();
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
        intake::handle(&self.app, batch).await.unwrap();
        (id, run)
    }

    /// What stands in the table when an intake was ended after a commit that its transaction's limit made it close
    /// early: the next envelopes of the run are parked, and none is missing before them.
    pub(crate) async fn left_by_an_intake(&self, session: AgentSessionId, events: &[RawEvent]) {
        let mut loaded = self.app.store.conversation(session).await.unwrap().unwrap();
        let run = loaded.conversation.session.run().unwrap();
        let (run, next) = (run.id, run.inbox.next());
        let mut commit = Commit::new();
        for (sequence, event) in (next..).zip(events) {
            loaded.conversation.session.park(sequence);
            let body = serde_json::to_string(event).unwrap();
            commit.park(session, run, sequence, &ParkedEnvelope { body }, self.app.now()).unwrap();
        }
        commit.conversation(&loaded, &self.app.deadlines).unwrap();
        self.app.store.commit(commit).await.unwrap();
    }

    fn message(&self, session: AgentSessionId, run: RunId, sequence: u64, body: RawEvent) -> Outgoing {
        let envelope = Envelope {
            protocol_version: PROTOCOL_VERSION,
            session_id: session,
            run_id: run,
            message_id: EnvelopeId::new(FreshIds.fresh()),
            sequence: Some(sequence),
            time: Timestamp::from_millis(0),
            traceparent: None,
            body,
        };
        let key = self.app.secret.envelope_key(run);
        let signed = Signed::seal(&envelope, "k", Signer::Sidecar, &key).unwrap();
        let id = format!("{}:1", envelope.message_id);
        Outgoing::new(session.to_string(), id, serde_json::to_string(&signed).unwrap())
    }
}

/// It knows nothing of its processes any more.
struct LostProcess;

#[async_trait]
impl AgentRuntime for LostProcess {
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
        RuntimeCapabilities { durable_workspace: true, placement: "here".to_owned() }
    }
}

struct NoWakes;

impl Wakes for NoWakes {
    fn watch(&self, _: AgentSessionId) -> Box<dyn Wake> {
        Box::new(Self)
    }
}

#[async_trait]
impl Wake for NoWakes {
    async fn grown(&mut self) -> bool {
        false
    }
}
