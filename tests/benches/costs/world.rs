//! The functions with a table and queues that count billed units, and a workload.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use pilothouse_app::http::Keyring;
use pilothouse_app::{App, Parts, queues};
use pilothouse_broker::embedded::EmbeddedBroker;
use pilothouse_broker::{
    Broker, DeadLetter, Depth, MAX_BATCH, OutgoingMessage, QueueError, QueueName, QueueOptions, Receipt,
    Received, SendOutcome,
};
use pilothouse_domain::{AgentSessionId, CommandId, RunId, UserId};
use pilothouse_functions::events::{intake, relay};
use pilothouse_functions::reactions;
use pilothouse_local_keys::{AUDIENCE, ISSUER, LocalKeys};
use pilothouse_runtime::ProcessState;
use pilothouse_sqlite::system_clock;
use pilothouse_store::Store;
use pilothouse_store::sqlite::SqliteTable;
use pilothouse_test_support::{EmbeddedEngines, InertRuntime, sealed_event};
use pilothouse_wire::Envelope;
use serde_json::{Value, json};

use super::billed::Billed;
use super::ledger::{Bill, Kind, Touched};

#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) messages: u64,
    /// Messages to queues that trigger a function.
    pub(crate) triggering: u64,
    /// Billed requests that send messages.
    pub(crate) sends: u64,
}

/// SQS bills each started piece of this size as a request.
const BILLED_BYTES: usize = 64 * 1024;

/// Clones share the count.
#[derive(Clone)]
struct Counted {
    inner: EmbeddedBroker,
    messages: Arc<AtomicU64>,
    triggering: Arc<AtomicU64>,
    sends: Arc<AtomicU64>,
}

#[async_trait]
impl Broker for Counted {
    async fn create(&self, queue: &QueueName, options: QueueOptions) -> Result<(), QueueError> {
        self.inner.create(queue, options).await
    }
    async fn remove(&self, queue: &QueueName) -> Result<(), QueueError> {
        self.inner.remove(queue).await
    }
    async fn list(&self, prefix: &str) -> Result<Vec<QueueName>, QueueError> {
        self.inner.list(prefix).await
    }
    async fn send(
        &self,
        queue: &QueueName,
        messages: Vec<OutgoingMessage>,
    ) -> Result<SendOutcome, QueueError> {
        self.messages.fetch_add(messages.len() as u64, Ordering::Relaxed);
        let bytes: usize = messages.iter().map(|message| message.body.len()).sum();
        self.sends.fetch_add(bytes.div_ceil(BILLED_BYTES).max(1) as u64, Ordering::Relaxed);
        if !queue.as_str().starts_with("commands-") {
            self.triggering.fetch_add(1, Ordering::Relaxed);
        }
        self.inner.send(queue, messages).await
    }
    async fn receive(&self, q: &QueueName, max: usize, wait: Duration) -> Result<Vec<Received>, QueueError> {
        self.inner.receive(q, max, wait).await
    }
    async fn delete(&self, queue: &QueueName, receipts: &[Receipt]) -> Result<(), QueueError> {
        self.inner.delete(queue, receipts).await
    }
    async fn release(&self, q: &QueueName, receipts: &[Receipt], delay: Duration) -> Result<(), QueueError> {
        self.inner.release(q, receipts, delay).await
    }
    async fn dead_letter(
        &self,
        queue: &QueueName,
        message: &Received,
        cause: &str,
    ) -> Result<(), QueueError> {
        self.inner.dead_letter(queue, message, cause).await
    }
    async fn receive_dead_letters(
        &self,
        queue: &QueueName,
        max: usize,
    ) -> Result<Vec<DeadLetter>, QueueError> {
        self.inner.receive_dead_letters(queue, max).await
    }
    async fn forget(&self, queue: &QueueName, receipt: &Receipt) -> Result<(), QueueError> {
        self.inner.forget(queue, receipt).await
    }
    async fn release_dead_letters(&self, queue: &QueueName, receipts: &[Receipt]) -> Result<(), QueueError> {
        self.inner.release_dead_letters(queue, receipts).await
    }
    async fn dead_letter_depth(&self, queue: &QueueName) -> Result<u64, QueueError> {
        self.inner.dead_letter_depth(queue).await
    }
    async fn depth(&self, queue: &QueueName) -> Result<Depth, QueueError> {
        self.inner.depth(queue).await
    }
}

fn keyring(keys: &LocalKeys) -> Keyring {
    Keyring::new(ISSUER, AUDIENCE, HashMap::from([(keys.kid().to_owned(), keys.decoding_key().clone())]))
}

/// The control plane, an owner, and the sidecar of one session.
pub(crate) struct World {
    app: App,
    table: SqliteTable,
    billed: Billed,
    broker: Counted,
    token: String,
    relayed: AtomicU64,
    /// Envelopes that each run has sent.
    said: Mutex<HashMap<RunId, u64>>,
    _engines: EmbeddedEngines,
}

impl World {
    pub(crate) async fn open() -> Self {
        let engines = EmbeddedEngines::open(system_clock()).await;
        let table = engines.table.clone();
        let billed = Billed::new(Arc::new(table.clone()));
        let inner = engines.broker.clone();
        let broker =
            Counted { inner, messages: Arc::default(), triggering: Arc::default(), sends: Arc::default() };
        let keys = LocalKeys::open_or_create(&engines.folder().join("keys")).unwrap();
        let app = App::new(Parts {
            store: Store::new(Arc::new(billed.clone())),
            broker: Arc::new(broker.clone()),
            runtime: Arc::new(InertRuntime {
                state: ProcessState::Alive,
                ..InertRuntime::with_workspace("bench")
            }),
            keyring: keyring(&keys),
            ..engines.parts()
        });
        let token = keys.mint(&UserId::parse("bench").unwrap(), Duration::from_mins(10)).unwrap();
        let (relayed, said) = (AtomicU64::new(0), Mutex::default());
        let world = Self { app, table, billed, broker, token, relayed, said, _engines: engines };
        // The pool is large, so that sessions start without waiting.
        world.call("PATCH", "/api/agents/pool", r#"{"maxConcurrentSessions":500}"#).await;
        world
    }

    /// The cost of `work` and its effects.
    pub(crate) async fn used(&self, work: impl AsyncFnOnce()) -> (Bill, Counts) {
        let (bill, counts) = (self.billed.bill(), self.counts());
        work().await;
        self.settle().await;
        let counts_then = self.counts();
        let counts = Counts {
            messages: counts_then.messages - counts.messages,
            triggering: counts_then.triggering - counts.triggering,
            sends: counts_then.sends - counts.sends,
        };
        (self.billed.bill().since(bill), counts)
    }

    /// The cost of `work` without its effects.
    pub(crate) async fn own_cost(&self, work: impl AsyncFnOnce()) -> Bill {
        let bill = self.billed.bill();
        work().await;
        self.billed.bill().since(bill)
    }

    /// Writes and checks of items since the last call.
    pub(crate) fn touched(&self) -> Vec<Touched> {
        self.billed.touched()
    }

    pub(crate) fn kinds(&self) -> BTreeMap<String, Kind> {
        self.billed.kinds()
    }

    fn counts(&self) -> Counts {
        Counts {
            messages: self.broker.messages.load(Ordering::Relaxed),
            triggering: self.broker.triggering.load(Ordering::Relaxed),
            sends: self.broker.sends.load(Ordering::Relaxed),
        }
    }

    pub(crate) async fn call(&self, method: &str, path: &str, body: &str) -> Value {
        self.call_with(&self.token, method, path, body).await
    }

    /// A call of the agent of a session.
    pub(crate) async fn call_as_agent(
        &self,
        session: AgentSessionId,
        method: &str,
        path: &str,
        body: &str,
    ) -> Value {
        let key = self.app.secret.api_key(session, 0);
        self.call_with(&key, method, &format!("/api/agent/sessions/{session}{path}"), body).await
    }

    async fn call_with(&self, token: &str, method: &str, path: &str, body: &str) -> Value {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", format!("Bearer {token}"))
            .body(axum::body::Body::from(body.to_owned()))
            .unwrap();
        let router = pilothouse_functions::router(self.app.clone());
        let response = tower::ServiceExt::oneshot(router, request).await.unwrap();
        let status = response.status();
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        let response: Value = serde_json::from_slice(&bytes).unwrap();
        assert!(status.is_success(), "{method} {path}: {response}");
        response
    }

    /// Runs the relay, the reactions and the intake until no work is left.
    pub(crate) async fn settle(&self) {
        loop {
            let after = self.relayed.load(Ordering::Relaxed);
            let fed = self.table.feed(after, 200).await.unwrap();
            for (place, item) in &fed {
                let reaction = relay::messages_for_entry(item).unwrap().reaction;
                if let Some(message) = reaction {
                    self.broker.send(&queues::reactions(), vec![message]).await.unwrap();
                }
                self.relayed.store(*place, Ordering::Relaxed);
            }
            let some = self.broker.receive(&queues::reactions(), 1, Duration::ZERO).await.unwrap();
            let none = some.is_empty();
            if !none {
                reactions::process_and_settle(&self.app, some).await.unwrap();
            }
            if fed.is_empty() && none {
                return;
            }
        }
    }

    pub(crate) async fn running_session(&self) -> AgentSessionId {
        let body = json!({
            "workingDirectory": "/repo/shop", "objective": "Make the tests of the shop pass", "budgetCapUsd": "5",
        });
        let started = self.call("POST", "/api/agents/sessions", &body.to_string()).await;
        self.begin(&started).await
    }

    /// Lets the sidecar of a started session begin its first turn.
    pub(crate) async fn begin(&self, started: &Value) -> AgentSessionId {
        let id: AgentSessionId = started["session"]["id"].as_str().unwrap().parse().unwrap();
        self.settle().await;
        let ready = json!({ "type": "sidecar_ready", "sidecarVersion": "bench", "adapter": "bench",
            "capabilities": able() });
        self.say(id, &[ready]).await;
        self.acknowledge(id, "begin_ack").await;
        self.say(id, &[json!({ "type": "turn_started", "turnId": "turn-1" })]).await;
        assert_eq!(self.call("GET", &format!("/api/agents/sessions/{id}"), "").await["status"], "Running");
        id
    }

    /// Read without counting, because a sidecar knows its run.
    async fn run_of(&self, id: AgentSessionId) -> RunId {
        let store = Store::new(Arc::new(self.table.clone()));
        store.session(id).await.unwrap().unwrap().run().unwrap().id
    }

    /// Sends events of the sidecar, and processes them in one batch with what follows from them.
    pub(crate) async fn say(&self, id: AgentSessionId, events: &[Value]) {
        self.take_in(id, events).await;
        self.settle().await;
    }

    /// Sends events of the sidecar, and processes them in one batch without what follows from them.
    pub(crate) async fn take_in(&self, id: AgentSessionId, events: &[Value]) {
        let run = self.run_of(id).await;
        let messages: Vec<_> = events.iter().map(|body| self.sealed_event(id, run, body)).collect();
        self.broker.send(&queues::events(), messages).await.unwrap();
        let batch = self.broker.receive(&queues::events(), MAX_BATCH, Duration::ZERO).await.unwrap();
        assert_eq!(batch.len(), events.len());
        intake::process_and_settle(&self.app, batch).await.unwrap();
    }

    fn sealed_event(&self, session: AgentSessionId, run: RunId, body: &Value) -> OutgoingMessage {
        let sequence = {
            let mut said = self.said.lock().unwrap();
            let last = said.entry(run).or_default();
            *last += 1;
            *last
        };
        sealed_event(&self.app, session, run, Some(sequence), body)
    }

    /// Receives the run's next command, and acknowledges it as received and done.
    pub(crate) async fn acknowledge(&self, id: AgentSessionId, ack: &str) {
        let queue = queues::commands(self.run_of(id).await);
        let received = self.broker.receive(&queue, 1, Duration::ZERO).await.unwrap();
        let [command] = &received[..] else { panic!("no command to be answered with {ack}") };
        let envelope: Envelope<Value> = serde_json::from_str(&command.body).unwrap();
        let command_id: CommandId = envelope.body["commandId"].as_str().unwrap().parse().unwrap();
        self.broker.delete(&queue, std::slice::from_ref(&command.receipt)).await.unwrap();
        for step in ["received", "done"] {
            self.say(id, &[json!({ "type": ack, "commandId": command_id, "step": step })]).await;
        }
    }

    /// Processes events in batches of these sizes in turn, each in its own invocation.
    pub(crate) async fn work(&self, id: AgentSessionId, events: &[Value], batches: &[usize]) {
        let mut rest = events;
        for size in batches.iter().cycle() {
            if rest.is_empty() {
                return;
            }
            let (batch, later) = rest.split_at((*size).min(rest.len()));
            self.say(id, batch).await;
            rest = later;
        }
    }
}

/// All capabilities, and a known spend.
fn able() -> Value {
    let mut all = serde_json::to_value(pilothouse_domain::value::Capabilities::default()).unwrap();
    for (_, can) in all.as_object_mut().unwrap().iter_mut().filter(|(_, can)| can.is_boolean()) {
        *can = json!(true);
    }
    all["unmetered"] = json!(false);
    all
}

/// The `n`th event of an agent that thinks, calls a tool, gets its result, sends a message, and reports usage.
pub(crate) fn event(n: u64) -> Value {
    let text = "I looked at the file and found that the total is rounded before the tax is added, not after.";
    let usage = |n: u64| json!({ "inputTokens": 900 * n, "outputTokens": 120 * n, "cacheReadTokens": 0, "cacheWriteTokens": 0 });
    match n % 5 {
        0 => {
            json!({ "type": "assistant_message", "content": { "kind": "thinking", "text": text }, "turnId": "turn-1" })
        }
        1 => json!({ "type": "assistant_message", "turnId": "turn-1", "content": { "kind": "tool_use",
            "toolCallId": format!("call-{n}"), "toolName": "Bash", "input": { "command": "cargo test --workspace" } } }),
        2 => {
            json!({ "type": "tool_result", "toolCallId": format!("call-{}", n - 1), "content": text.repeat(6) })
        }
        3 => {
            json!({ "type": "assistant_message", "content": { "kind": "text", "text": text }, "turnId": "turn-1" })
        }
        _ => json!({ "type": "usage_update", "meterId": "main", "modelId": "model", "tokenUsage": usage(n),
            "costUsd": format!("0.{:06}", n * 100), "contextWindow": { "inputTokens": 400 * n, "outputTokens": 0,
            "cacheReadTokens": 0, "cacheWriteTokens": 0, "modelContextLimit": 1_000_000 } }),
    }
}
