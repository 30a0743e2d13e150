//! The functions on embedded engines, with agents that are played: each works, spends, and hands over, as its place in the
//! chain says. Whatever fails is delivered again; after a death everything is.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pilothouse_broker::{MAX_BATCH, Outgoing, Receipt, Received};
use pilothouse_domain::conversation::{Conversation, NewMessage};
use pilothouse_domain::journal::Cause;
use pilothouse_domain::queue::SessionMessageQueue;
use pilothouse_domain::session::{AgentSession, RunPhase};
use pilothouse_domain::text::MessageContent;
use pilothouse_domain::value::{Capabilities, MessagePriority, MessageSource};
use pilothouse_domain::{AgentSessionId, MessageId, RunId, SessionChain, UserId};
use pilothouse_functions::app::FreshIds;
use pilothouse_functions::workers::Ends;
use pilothouse_functions::{App, Parts, intake, queues, reactions};
use pilothouse_runtime::RunEvents as _;
use pilothouse_sqlite::system_clock;
use pilothouse_stage::{Ground, NoRuntime, new_session, sealed};
use pilothouse_store::{Commit, LoadedConversation, Store};
use pilothouse_wire::RawEvent;
use pilothouse_wire::launch::RunExit;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::dying::{Death, Dying};

pub(crate) struct Stage {
    pub(crate) app: App,
    table: Dying,
    owner: UserId,
    /// What every session of the chain tells, by its place from 0; those beyond tell what the last one tells.
    tells: Vec<Vec<Value>>,
    /// Reactions that are done.
    reacted: HashSet<String>,
    /// Events that the intake failed at.
    failed: Mutex<Vec<Received>>,
    deaths: usize,
    _ground: Ground,
}

impl Stage {
    pub(crate) async fn open(tells: Vec<Vec<Value>>) -> Self {
        let ground = Ground::open(system_clock()).await;
        let table = Dying::new(ground.table.clone());
        let app = App::new(Parts {
            store: Store::new(Arc::new(table.clone())),
            // Runs are played.
            runtime: Arc::new(NoRuntime::durable("here")),
            ..ground.parts()
        });
        let owner = UserId::parse("owner").unwrap();
        Self {
            app,
            table,
            owner,
            tells,
            reacted: HashSet::new(),
            failed: Mutex::default(),
            deaths: 0,
            _ground: ground,
        }
    }

    /// A session that is being launched, with the only slot, and with these messages in its queue.
    pub(crate) async fn start(&self, cap: &str, messages: &[(u128, MessagePriority)]) -> AgentSessionId {
        let new = new_session(&self.owner, cap);
        let (id, mut ids) = (new.id, FreshIds);
        let mut cx = self.app.occasion(&mut ids);
        let mut pool = self.app.store.pool(&self.owner).await.unwrap();
        pool.value.configure(1).unwrap();
        let (mut session, mut events) = AgentSession::create(new, &cx);
        events.extend(pool.value.allocate(&mut session, &mut cx).unwrap().1);
        let mut conversation = Conversation::new(session, SessionMessageQueue::default());
        for (n, priority) in messages {
            let message = NewMessage {
                message_id: message(*n),
                content: MessageContent::parse(format!("message {n}")).unwrap(),
                priority: *priority,
                source: MessageSource::User,
                expected_turn_id: None,
            };
            events.extend(conversation.enqueue(message, &cx).unwrap());
        }
        let mut loaded = LoadedConversation::new(conversation);
        let mut commit = Commit::new();
        self.app.record(&mut commit, &mut loaded, Cause::Clock, events).unwrap();
        commit.pool(&self.owner, &pool).unwrap();
        self.app.store.commit(commit).await.unwrap();
        id
    }

    /// From now on, the process dies at this transaction.
    pub(crate) fn dies_at(&self, transaction: usize, how: Death) {
        self.table.dies_at(transaction, how);
    }

    /// Whether it died.
    pub(crate) fn died(&self) -> bool {
        self.deaths > 0 && !self.table.is_to_die()
    }

    /// Goes on until nothing moves any more. Everything is delivered again after a death.
    pub(crate) async fn until_quiet(&mut self) {
        for _ in 0..400 {
            let moved = self.round().await;
            if moved {
                self.intake().await;
            }
            if self.table.starts_again() {
                self.deaths += 1;
                self.reacted.clear();
            } else if !moved {
                return;
            }
        }
        panic!("it does not come to rest");
    }

    /// Delivers every reaction once more, to a state in which everything is done.
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

    /// Hands every journal entry that was not dealt with to the reactions.
    async fn react(&mut self) -> bool {
        let mut moved = false;
        for Outgoing { group, deduplication_id, body, .. } in self.outbox().await {
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

    async fn outbox(&self) -> Vec<Outgoing> {
        let mut outbox = Vec::new();
        for session in self.sessions().await {
            let entries = self.app.store.journal(session.id(), 0, 1000).await.unwrap_or_default();
            outbox.extend(entries.iter().filter_map(reactions::message));
        }
        outbox
    }

    /// What the sidecar of a session's run does next.
    async fn play(&self, session: &AgentSession) -> bool {
        let Some(run) = session.run() else { return false };
        match run.phase {
            RunPhase::Launching => {
                let at = session.continues().map_or(1, |it| it.position) as usize - 1;
                let tells = self.tells.get(at).or(self.tells.last()).cloned().unwrap_or_default();
                let ready = RawEvent::SidecarReady {
                    sidecar_version: "1".to_owned(),
                    adapter: "none".to_owned(),
                    capabilities: Capabilities { pause: true, ..Capabilities::default() },
                };
                let told = tells.into_iter().map(|event| serde_json::from_value(event).unwrap());
                self.hear(session.id(), run.id, 1, std::iter::once(ready).chain(told)).await;
                true
            }
            RunPhase::Ending { .. } => {
                let exit = RunExit { code: Some(0), signal: None, drained: true, detail: None };
                Ends::of(&self.app).exited(session.id(), run.id, exit).await.unwrap();
                self.intake().await;
                true
            }
            RunPhase::Live => false,
        }
    }

    /// Events of a run from this sequence on, as its sidecar sends them.
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
        // What fails comes again.
        batch.retain(|message| !settlement.done.contains(&message.receipt));
        *self.failed.lock().unwrap() = batch;
        self.app.broker.delete(&queues::events(), &settlement.done).await.unwrap();
    }

    fn message(&self, session: AgentSessionId, run: RunId, sequence: u64, body: RawEvent) -> Outgoing {
        sealed(&self.app, session, run, Some(sequence), body)
    }

    /// The sessions of the owner by creation; none while the process is gone.
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
        self.app.store.list_owned::<SessionChain>(&self.owner, false, 100, None).await.unwrap().items
    }

    /// Who has the slots.
    pub(crate) async fn slots(&self) -> BTreeMap<AgentSessionId, RunId> {
        let pool = self.app.store.pool(&self.owner).await.unwrap().value;
        pool.leases().iter().map(|(id, lease)| (*id, lease.run_id)).collect()
    }

    /// How often events of this name happened to a session.
    pub(crate) async fn happened(&self, id: AgentSessionId, name: &str) -> usize {
        let entries = self.app.store.journal(id, 0, 1000).await.unwrap();
        entries.iter().flat_map(|entry| &entry.events).filter(|event| event.name() == name).count()
    }
}

/// The message with this number.
pub(crate) fn message(n: u128) -> MessageId {
    MessageId::new(Uuid::from_u128(1_000_000_000 + n))
}

/// The agent begins a turn.
pub(crate) fn begins() -> Value {
    json!({ "type": "turn_started", "turnId": "t-1" })
}

/// Running totals of the agent.
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
