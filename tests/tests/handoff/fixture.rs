//! The functions on embedded engines with scripted agents: each works, spends and hands off as its position in the chain requires.
//! Failed messages are redelivered; after a death all messages are.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pilothouse_app::FreshIds;
use pilothouse_app::run_exit::RunExitReporter;
use pilothouse_app::{App, Parts, queues};
use pilothouse_broker::{MAX_BATCH, OutgoingMessage, Receipt, Received};
use pilothouse_domain::conversation::{Conversation, NewMessage};
use pilothouse_domain::journal::Cause;
use pilothouse_domain::queue::SessionMessageQueue;
use pilothouse_domain::session::{AgentSession, RunPhase};
use pilothouse_domain::text::MessageContent;
use pilothouse_domain::value::{Capabilities, MessagePriority, MessageSource};
use pilothouse_domain::{AgentSessionId, MessageId, RunId, SessionChain, UserId};
use pilothouse_functions::events::intake;
use pilothouse_functions::reactions;
use pilothouse_runtime::RunEvents as _;
use pilothouse_sqlite::system_clock;
use pilothouse_store::{Commit, LoadedConversation, Store};
use pilothouse_test_support::{CrashPoint, FaultyTable};
use pilothouse_test_support::{EmbeddedEngines, InertRuntime, new_session, sealed_event};
use pilothouse_wire::RawEvent;
use pilothouse_wire::launch::RunExit;
use serde_json::{Value, json};
use uuid::Uuid;

pub(crate) struct HandoffFixture {
    pub(crate) app: App,
    table: FaultyTable,
    owner: UserId,
    /// The events of each session by position in the chain, from 0. Later sessions repeat the last entry.
    reports: Vec<Vec<Value>>,
    reacted: HashSet<String>,
    /// The intake failed to process these events.
    failed: Mutex<Vec<Received>>,
    crashes: usize,
    _engines: EmbeddedEngines,
}

impl HandoffFixture {
    pub(crate) async fn open(reports: Vec<Vec<Value>>) -> Self {
        let engines = EmbeddedEngines::open(system_clock()).await;
        let table = FaultyTable::new(engines.table.clone());
        let app = App::new(Parts {
            store: Store::new(Arc::new(table.clone())),
            // This harness simulates runs.
            runtime: Arc::new(InertRuntime::with_workspace("here")),
            ..engines.parts()
        });
        let owner = UserId::parse("owner").unwrap();
        Self {
            app,
            table,
            owner,
            reports,
            reacted: HashSet::new(),
            failed: Mutex::default(),
            crashes: 0,
            _engines: engines,
        }
    }

    /// Launches a session with the only slot and with these queued messages.
    pub(crate) async fn start(&self, cap: &str, messages: &[(u128, MessagePriority)]) -> AgentSessionId {
        let new = new_session(&self.owner, cap);
        let (id, mut ids) = (new.id, FreshIds);
        let mut ctx = self.app.domain_context(&mut ids);
        let mut pool = self.app.store.pool(&self.owner).await.unwrap();
        pool.value.configure(1).unwrap();
        let (mut session, mut events) = AgentSession::create(new, &ctx);
        events.extend(pool.value.allocate(&mut session, &mut ctx).unwrap().1);
        let mut conversation = Conversation::new(session, SessionMessageQueue::default());
        for (n, priority) in messages {
            let message = NewMessage {
                message_id: message(*n),
                content: MessageContent::parse(format!("message {n}")).unwrap(),
                images: Vec::new(),
                priority: *priority,
                source: MessageSource::User,
                expected_turn_id: None,
            };
            events.extend(conversation.enqueue(message, &ctx).unwrap());
        }
        let mut loaded = LoadedConversation::new(conversation);
        let mut commit = Commit::new();
        self.app.record(&mut commit, &mut loaded, Cause::Clock, events).unwrap();
        commit.pool(&self.owner, &pool).unwrap();
        self.app.store.commit(commit).await.unwrap();
        id
    }

    /// From now on, the process dies at this transaction.
    pub(crate) fn crash_at(&self, transaction: usize, how: CrashPoint) {
        self.table.crash_at(transaction, how);
    }

    /// Whether the process died.
    pub(crate) fn has_crashed(&self) -> bool {
        self.crashes > 0 && !self.table.is_crash_pending()
    }

    /// Runs until no state changes. After a death, redelivers every message.
    pub(crate) async fn until_quiet(&mut self) {
        for _ in 0..400 {
            let moved = self.round().await;
            if moved {
                self.intake().await;
            }
            if self.table.restart() {
                self.crashes += 1;
                self.reacted.clear();
            } else if !moved {
                return;
            }
        }
        panic!("the state does not settle");
    }

    /// Repeats every reaction after the end of all work.
    pub(crate) async fn react_again(&mut self) {
        self.reacted.clear();
        self.until_quiet().await;
    }

    async fn round(&mut self) -> bool {
        let mut moved = self.react().await;
        for session in self.sessions().await {
            moved |= self.play(&session).await;
        }
        moved
    }

    /// Passes every unprocessed journal entry to the reactions.
    async fn react(&mut self) -> bool {
        let mut moved = false;
        for OutgoingMessage { group, deduplication_id, body, .. } in self.outbox().await {
            if self.reacted.contains(&deduplication_id) {
                continue;
            }
            moved = true;
            let receipt = Receipt(deduplication_id.clone());
            let received = Received { receipt, group, body, receive_count: 1, redriven: false };
            let settlement = reactions::process(&self.app, vec![received]).await;
            if settlement.done.is_empty() {
                return true;
            }
            self.reacted.insert(deduplication_id);
        }
        moved
    }

    async fn outbox(&self) -> Vec<OutgoingMessage> {
        let mut outbox = Vec::new();
        for session in self.sessions().await {
            let entries = self.app.store.journal(session.id(), 0, 1000).await.unwrap_or_default();
            outbox.extend(entries.iter().filter_map(reactions::message));
        }
        outbox
    }

    /// Performs the next step of the sidecar of a session's run.
    async fn play(&self, session: &AgentSession) -> bool {
        let Some(run) = session.run() else { return false };
        match run.phase {
            RunPhase::Launching => {
                let at = session.continues().map_or(1, |it| it.position) as usize - 1;
                let reports = self.reports.get(at).or(self.reports.last()).cloned().unwrap_or_default();
                let ready = RawEvent::SidecarReady {
                    sidecar_version: "1".to_owned(),
                    adapter: "none".to_owned(),
                    capabilities: Capabilities {
                        pause: true,
                        steer_mid_turn: true,
                        ..Capabilities::default()
                    },
                };
                let events = reports.into_iter().map(|event| serde_json::from_value(event).unwrap());
                self.hear(session.id(), run.id, 1, std::iter::once(ready).chain(events)).await;
                true
            }
            RunPhase::Ending { .. } => {
                let exit = RunExit { code: Some(0), signal: None, drained: true, detail: None };
                RunExitReporter::of(&self.app).report_exit(session.id(), run.id, exit).await.unwrap();
                self.intake().await;
                true
            }
            RunPhase::Live => false,
        }
    }

    /// `sequence` is that of the first event.
    pub(crate) async fn hear(
        &self,
        session: AgentSessionId,
        run: RunId,
        first: u64,
        events: impl Iterator<Item = RawEvent>,
    ) {
        for (sequence, event) in (first..).zip(events) {
            let message = self.message(session, run, sequence, event);
            self.app.broker.send(&queues::events(), vec![message]).await.unwrap();
        }
        self.intake().await;
    }

    async fn intake(&self) {
        let mut batch = std::mem::take(&mut *self.failed.lock().unwrap());
        batch.extend(self.app.broker.receive(&queues::events(), MAX_BATCH, Duration::ZERO).await.unwrap());
        let settlement = intake::process(&self.app, batch.clone()).await;
        // Failed messages stay in the batch.
        batch.retain(|message| !settlement.done.contains(&message.receipt));
        *self.failed.lock().unwrap() = batch;
        self.app.broker.delete(&queues::events(), &settlement.done).await.unwrap();
    }

    fn message(&self, session: AgentSessionId, run: RunId, sequence: u64, body: RawEvent) -> OutgoingMessage {
        sealed_event(&self.app, session, run, Some(sequence), body)
    }

    /// By creation time; empty while the process is dead.
    pub(crate) async fn sessions(&self) -> Vec<AgentSession> {
        let listed = self.app.store.sessions(&self.owner, 100, None).await;
        let mut sessions = listed.map(|page| page.items).unwrap_or_default();
        sessions.sort_by_key(AgentSession::id);
        sessions
    }

    pub(crate) async fn conversation(&self, id: AgentSessionId) -> Conversation {
        *self.app.store.conversation(id).await.unwrap().unwrap().conversation
    }

    pub(crate) async fn chains(&self) -> Vec<SessionChain> {
        self.app.store.list_aggregates::<SessionChain>(&self.owner, false, 100, None).await.unwrap().items
    }

    pub(crate) async fn slots(&self) -> BTreeMap<AgentSessionId, RunId> {
        let pool = self.app.store.pool(&self.owner).await.unwrap().value;
        pool.leases().iter().map(|(id, lease)| (*id, lease.run_id)).collect()
    }

    pub(crate) async fn happened(&self, id: AgentSessionId, name: &str) -> usize {
        let entries = self.app.store.journal(id, 0, 1000).await.unwrap();
        entries.iter().flat_map(|entry| &entry.events).filter(|event| event.name() == name).count()
    }
}

pub(crate) fn message(n: u128) -> MessageId {
    MessageId::new(Uuid::from_u128(1_000_000_000 + n))
}

pub(crate) fn begins() -> Value {
    json!({ "type": "turn_started", "turnId": "t-1" })
}

pub(crate) fn spends(total: &str) -> Value {
    json!({ "type": "usage_update", "meterId": "m", "modelId": "m", "costUsd": total,
        "tokenUsage": { "inputTokens": 1, "outputTokens": 1, "cacheReadTokens": 0, "cacheWriteTokens": 0 } })
}

pub(crate) fn exhausted() -> Value {
    json!({ "type": "context_exhausted" })
}

pub(crate) fn document(words: &str) -> Value {
    json!({ "type": "handoff_document", "summary": words, "remainingWork": "the rest" })
}

pub(crate) fn ends() -> Value {
    json!({ "type": "session_end", "isError": false, "reason": "success" })
}
