//! Redrive, without processes: an event that cannot be applied is set aside, counts when it is sent again, and counts
//! once (ruling 9).

// Helpers of tests speak by panicking, as the tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use http::{Request, StatusCode};
use pilothouse_broker::Outgoing;
use pilothouse_broker::embedded::{self, EmbeddedBroker};
use pilothouse_domain::conversation::Conversation;
use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::queue::SessionMessageQueue;
use pilothouse_domain::session::{NewSession, SessionSettings};
use pilothouse_domain::value::SessionBudget;
use pilothouse_domain::{
    AgentSession, AgentSessionId, Deadlines, DomainEvent, EnvelopeId, IdSource as _, RunId, Timestamp, UserId,
};
use pilothouse_functions::app::{Fleet, FreshIds};
use pilothouse_functions::edge::Keyring;
use pilothouse_functions::edge::auth::VerifiedOwner;
use pilothouse_functions::stream::{Wake, Wakes};
use pilothouse_functions::{App, Parts, intake, queues};
use pilothouse_runtime::{AgentRuntime, LaunchError, ProcessState, RuntimeCapabilities, StopError, StopMode};
use pilothouse_sqlite::{Clock, Database, system_clock};
use pilothouse_store::blob::FileBlobs;
use pilothouse_store::commit::LoadedConversation;
use pilothouse_store::sqlite::{self, SqliteTable};
use pilothouse_store::table::{Condition, Item, Key, Table as _, Write};
use pilothouse_store::{Commit, Store, layout};
use pilothouse_wire::envelope::{PROTOCOL_VERSION, Signer};
use pilothouse_wire::launch::{Entrance, LaunchRequest};
use pilothouse_wire::{Envelope, RootSecret, Signed};
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt as _;

/// Runs nothing.
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

struct Stage {
    app: App,
    table: SqliteTable,
    ahead: Arc<AtomicI64>,
    session: AgentSessionId,
    run: RunId,
    _folder: TempDir,
}

impl Stage {
    /// A session with a run that has said nothing yet.
    async fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let ahead = Arc::new(AtomicI64::new(0));
        let (system, offset) = (system_clock(), Arc::clone(&ahead));
        let clock: Clock =
            Arc::new(move || Timestamp::from_millis(system().as_millis() + offset.load(Ordering::SeqCst)));
        let db = Database::open(folder.path().join("db"), &[sqlite::SCHEMA, embedded::SCHEMA]).unwrap();
        let broker = EmbeddedBroker::open(db.clone(), Arc::clone(&clock)).await.unwrap();
        queues::create(&broker).await.unwrap();
        let table = SqliteTable::new(db, Arc::clone(&clock));
        let operators = [UserId::parse("operator").unwrap()].into_iter().collect();
        let app = App::new(Parts {
            store: Store::new(Arc::new(table.clone())),
            blobs: Arc::new(FileBlobs::open(folder.path().join("blobs")).unwrap()),
            broker: Arc::new(broker),
            runtime: Arc::new(NoRuntime),
            keyring: Keyring::new("issuer", "audience", HashMap::new()),
            secret: RootSecret::new("test", vec![7; 32]).unwrap(),
            deadlines: Deadlines::default(),
            clock,
            wakes: Arc::new(NoWakes),
            fleet: Some(Fleet { entrance: Entrance::gateway("http://127.0.0.1:1"), vendor: None, operators }),
            outside: pilothouse_functions::outside::Outside::default(),
        });
        let (session, run) = create(&app).await;
        Self { app, table, ahead, session, run, _folder: folder }
    }

    /// Puts an event of the run on the events queue.
    async fn send(&self, sequence: u64, body: Value) {
        let message_id = EnvelopeId::new(FreshIds.fresh());
        let envelope = Envelope {
            protocol_version: PROTOCOL_VERSION,
            session_id: self.session,
            run_id: self.run,
            message_id,
            sequence: Some(sequence),
            time: self.app.now(),
            traceparent: None,
            body,
        };
        let key = self.app.secret.envelope_key(self.run);
        let signed = Signed::seal(&envelope, "test", Signer::Sidecar, &key).unwrap();
        let body = serde_json::to_string(&signed).unwrap();
        let message = Outgoing::new(self.session.to_string(), format!("{message_id}:1"), body);
        assert!(self.app.broker.send(&queues::events(), vec![message]).await.unwrap().failed.is_empty());
    }

    /// Has the intake take what there is, over all pauses, until nothing is left.
    async fn take_in(&self) {
        for _ in 0..50 {
            let batch = self.app.broker.receive(&queues::events(), 10, Duration::ZERO).await.unwrap();
            intake::handle(&self.app, batch).await.unwrap();
            let depth = self.app.broker.depth(&queues::events()).await.unwrap();
            if depth.visible + depth.in_flight == 0 {
                return;
            }
            self.ahead.fetch_add(31_000, Ordering::SeqCst);
        }
        panic!("the queue is not empty");
    }

    /// What is known of the subagent `helper`.
    fn helper(&self) -> Key {
        Key::new(layout::session_partition(self.session), "SUB#helper")
    }

    /// Leaves an item there that this version cannot read, as a newer one might.
    async fn damage(&self) {
        let (kind, body) = ("subagent".to_owned(), "{}".to_owned());
        let item =
            Item { key: self.helper(), kind, version: 0, listing: None, due: None, expires_at: None, body };
        self.table.transact(vec![Write::Put(item, Condition::Always)]).await.unwrap();
    }

    async fn repair(&self) {
        self.table.transact(vec![Write::Delete(self.helper(), Condition::Always)]).await.unwrap();
    }

    async fn spent(&self) -> String {
        let loaded = self.app.store.conversation(self.session).await.unwrap().unwrap();
        loaded.conversation.session.budget().estimated_cost_usd().to_string()
    }

    async fn events(&self) -> Vec<DomainEvent> {
        let journal: Vec<JournalEntry> = self.app.store.journal(self.session, 0, 200).await.unwrap();
        journal.into_iter().flat_map(|entry| entry.events).collect()
    }

    async fn dead(&self) -> u64 {
        self.app.broker.dead_depth(&queues::events()).await.unwrap()
    }

    async fn ask(&self, owner: &str, method: &str, path: &str) -> (StatusCode, Value) {
        let path = format!("/api/operations/dead-letters{path}");
        let mut request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        request.extensions_mut().insert(VerifiedOwner(UserId::parse(owner).unwrap()));
        let response = pilothouse_functions::router(self.app.clone()).oneshot(request).await.unwrap();
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn redrive(&self) -> Value {
        let (status, body) = self.ask("operator", "POST", "/events/redrive").await;
        assert_eq!(status, StatusCode::OK, "{body}");
        body
    }
}

async fn create(app: &App) -> (AgentSessionId, RunId) {
    let mut ids = FreshIds;
    let id = AgentSessionId::new(ids.fresh());
    let mut cx = app.occasion(&mut ids);
    let new = NewSession {
        id,
        owner_id: UserId::parse("somebody").unwrap(),
        template_id: None,
        name: None,
        working_directory: "/w".to_owned().try_into().unwrap(),
        objective: "Do it".to_owned().try_into().unwrap(),
        model_id: "m".to_owned().try_into().unwrap(),
        budget: SessionBudget::new("10".parse().unwrap(), 80).unwrap(),
        auto_continue: None,
        settings: SessionSettings::default(),
    };
    let (mut session, mut events) = AgentSession::create(new, &cx);
    let (run, minted) = session.mint_run(&mut cx).unwrap();
    events.extend(minted);
    let mut loaded = LoadedConversation::new(Conversation::new(session, SessionMessageQueue::default()));
    let mut commit = Commit::new();
    app.record(&mut commit, &mut loaded, Cause::Clock, events).unwrap();
    app.store.commit(commit).await.unwrap();
    (id, run)
}

fn usage(total: &str, subagent: Option<&str>) -> Value {
    let meter = subagent.unwrap_or("main");
    json!({ "type": "usage_update", "meterId": meter, "modelId": "m", "subagentId": subagent,
            "costUsd": total, "tokenUsage": {} })
}

fn late(events: &[DomainEvent]) -> Vec<u64> {
    let sequence = |event: &DomainEvent| match event {
        DomainEvent::EventRedriven { sequence } => Some(*sequence),
        _ => None,
    };
    events.iter().filter_map(sequence).collect()
}

#[tokio::test]
async fn an_event_that_keeps_failing_is_set_aside_and_counts_late_and_once() {
    let stage = Stage::new().await;
    stage.damage().await;
    stage.send(1, usage("1", None)).await;
    stage.send(2, usage("0.25", Some("helper"))).await;
    stage.send(3, usage("2", None)).await;
    stage.take_in().await;
    assert_eq!((stage.spent().await.as_str(), stage.dead().await), ("2", 1), "the rest goes on");

    let (status, list) = stage.ask("operator", "GET", "").await;
    assert_eq!(status, StatusCode::OK);
    let letter = &list["queues"][0]["letters"][0];
    assert_eq!((&letter["receiveCount"], &letter["group"]), (&json!(5), &json!(stage.session)), "{list:#}");
    assert!(letter["cause"].as_str().unwrap().contains("cannot be read"), "{list:#}");

    // What was in its way is still there: it dies again, and is not lost.
    assert_eq!(stage.redrive().await["redrive"]["letters"], 1);
    stage.take_in().await;
    assert_eq!((stage.spent().await.as_str(), stage.dead().await), ("2", 1));

    stage.repair().await;
    let answer = stage.redrive().await;
    assert_eq!((&answer["redrive"]["letters"], &answer["left"]), (&json!(1), &json!(0)));
    stage.take_in().await;
    assert_eq!((stage.spent().await.as_str(), stage.dead().await), ("2.25", 0));
    assert_eq!(late(&stage.events().await), [2]);

    let (_, list) = stage.ask("operator", "GET", "").await;
    assert_eq!(list["queues"], json!([]));
    let redrives = list["redrives"].as_array().unwrap();
    assert_eq!(redrives.len(), 2);
    assert!(
        redrives.iter().all(|r| r["by"] == "operator" && r["requests"].as_u64().unwrap() >= 4),
        "{list:#}"
    );
    // The next sequence is still the next one.
    stage.send(4, usage("3", None)).await;
    stage.take_in().await;
    assert_eq!(stage.spent().await, "3.25");
}

/// Sent twice with the marker, as a redrive that ended half-way leaves it, and without it, as a sidecar repeats it.
#[tokio::test]
async fn an_event_that_was_applied_late_is_not_applied_again() {
    let stage = Stage::new().await;
    stage.damage().await;
    stage.send(1, usage("0.25", Some("helper"))).await;
    stage.take_in().await;
    stage.repair().await;
    let letter = stage.app.broker.receive_dead(&queues::events(), 1).await.unwrap().remove(0);
    for copy in 0..3 {
        let again = Outgoing {
            redriven: copy > 0,
            ..Outgoing::new(letter.group.clone(), format!("copy-{copy}"), letter.body.clone())
        };
        assert!(stage.app.broker.send(&queues::events(), vec![again]).await.unwrap().failed.is_empty());
    }
    stage.take_in().await;
    assert_eq!(stage.spent().await, "0.25");
    assert_eq!(late(&stage.events().await), [1]);
}

#[tokio::test]
async fn only_operators_see_and_redrive_dead_letters() {
    let stage = Stage::new().await;
    for (method, path) in [("GET", ""), ("POST", "/events/redrive")] {
        let (status, body) = stage.ask("somebody", method, path).await;
        assert_eq!((status, &body["code"]), (StatusCode::NOT_FOUND, &json!("not-found")), "{method} {path}");
        assert_eq!(stage.ask("operator", method, path).await.0, StatusCode::OK, "{method} {path}");
    }
    assert_eq!(stage.ask("operator", "POST", "/nowhere/redrive").await.0, StatusCode::NOT_FOUND);
}
