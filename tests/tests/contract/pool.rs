//! The pool under concurrent starts, ends, retries, cancellations, changes of its size and emergency brakes, on both engines, with the functions
//! and reactions of the control plane (decisions 21 and 72).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::Body;
use http::Request;
use pilothouse_app::http::auth::VerifiedOwner;
use pilothouse_app::{App, FreshIds, Parts};
use pilothouse_domain::journal::Cause;
use pilothouse_domain::pool::Lease;
use pilothouse_domain::session::RunEnd;
use pilothouse_domain::value::FailureReason;
use pilothouse_domain::{AgentSession, AgentSessionId, UserId};
use pilothouse_functions::reactions;
use pilothouse_sqlite::system_clock;
use pilothouse_store::contract::Subject;
use pilothouse_store::{AggregateRef, Commit, CommitError, Store};
use pilothouse_test_support::{EmbeddedEngines, received};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::sqlite::Sqlite;
use crate::table::Dynamo;

/// Clients that start sessions.
const STARTERS: usize = 4;
/// Consumers of the reactions queue. Each reacts to the journals of its sessions in order.
const REACTORS: usize = 3;
/// Observers of ended processes.
const FINISHERS: usize = 2;
/// How often the leases are read while a brake is in force.
const LOOKS: usize = 20;
/// Runs that end while sessions start.
const ENDS: usize = 20;

struct PoolFixture {
    app: App,
    owner: UserId,
    /// The number of processed journal entries by session. A consumer takes a session out while it reacts.
    journals: Mutex<BTreeMap<AgentSessionId, u64>>,
    _engines: EmbeddedEngines,
}

impl PoolFixture {
    async fn new(subject: &dyn Subject) -> Arc<Self> {
        let engines = EmbeddedEngines::open(system_clock()).await;
        let app = App::new(Parts { store: Store::new(subject.table()), ..engines.parts() });
        let owner = UserId::parse("owner").unwrap();
        Arc::new(Self { app, owner, journals: Mutex::default(), _engines: engines })
    }

    async fn call(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        self.send(method, &format!("/api/agents{path}"), body).await
    }

    async fn send(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let mut request =
            Request::builder().method(method).uri(path).body(Body::from(body.to_string())).unwrap();
        request.extensions_mut().insert(VerifiedOwner(self.owner.clone()));
        let response = pilothouse_functions::router(self.app.clone()).oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    async fn set_slots(&self, slots: usize) {
        let (status, body) = self.call("PATCH", "/pool", json!({ "maxConcurrentSessions": slots })).await;
        assert_eq!(status, 200, "{body}");
    }

    async fn start(&self) -> AgentSessionId {
        let body = json!({ "workingDirectory": "/w", "objective": "Do it", "budgetCapUsd": "1" });
        let (status, body) = self.call("POST", "/sessions", body).await;
        assert!(status == 201 || status == 202, "{status} {body}");
        let id: AgentSessionId = body["session"]["id"].as_str().unwrap().parse().unwrap();
        self.journals.lock().unwrap().insert(id, 0);
        id
    }

    async fn sessions(&self) -> Vec<AgentSession> {
        let mut sessions = Vec::new();
        let ids: Vec<_> = self.journals.lock().unwrap().keys().copied().collect();
        for id in ids {
            sessions.push(self.app.store.session(id).await.unwrap().unwrap());
        }
        sessions
    }

    async fn leases(&self) -> BTreeMap<AgentSessionId, Lease> {
        self.app.store.pool(&self.owner).await.unwrap().value.leases().clone()
    }

    /// Reacts to an entry of a brake.
    async fn react_to_brake(&self, brake: &str, sequence: u64) {
        let aggregate = AggregateRef { kind: "brake".to_owned(), id: brake.to_owned() };
        let entry = self.app.store.aggregate_journal_entry(&aggregate, sequence).await.unwrap().unwrap();
        loop {
            let message = reactions::message_for_aggregate(&entry).unwrap();
            if !reactions::process(&self.app, vec![received(message)]).await.done.is_empty() {
                return;
            }
        }
    }

    /// Ends the run of a session whose agent failed. Returns whether it had a run.
    async fn end_run(&self, id: AgentSessionId) -> bool {
        loop {
            let mut loaded = self.app.store.conversation(id).await.unwrap().unwrap();
            let Some(run) = loaded.conversation.session.run().map(|run| run.id) else { return false };
            let mut ids = FreshIds;
            let mut ctx = self.app.domain_context(&mut ids);
            let session = &mut loaded.conversation.session;
            let mut events =
                session.record_failure(FailureReason::AgentError, None, &ctx).unwrap_or_default();
            events.extend(session.record_run_ended(run, RunEnd::Drained, None, &mut ctx).unwrap());
            let events = self.app.with_consequences(&mut loaded.conversation, events, &mut ctx);
            let mut commit = Commit::new();
            self.app.record(&mut commit, &mut loaded, Cause::Clock, events).unwrap();
            match self.app.store.commit(commit).await {
                Ok(()) => return true,
                Err(CommitError::Conflict) => tokio::task::yield_now().await,
                Err(other) => panic!("{other}"),
            }
        }
    }

    /// Returns whether the session had unprocessed journal entries.
    async fn react(&self, id: AgentSessionId) -> bool {
        let Some(after) = self.journals.lock().unwrap().get(&id).copied() else { return false };
        let entries = self.app.store.journal(id, after, 50).await.unwrap();
        for entry in &entries {
            while let Some(message) = reactions::message(entry) {
                if !reactions::process(&self.app, vec![received(message)]).await.done.is_empty() {
                    break;
                }
            }
            self.journals.lock().unwrap().insert(id, entry.sequence);
        }
        !entries.is_empty()
    }

    /// Reacts to the sessions of one consumer. Returns whether any had work.
    async fn react_as(&self, reactor: usize) -> bool {
        let ids: Vec<_> = self.journals.lock().unwrap().keys().copied().collect();
        let mut found = false;
        for id in ids.into_iter().filter(|id| usize::from(id.uuid().as_bytes()[15]) % REACTORS == reactor) {
            found |= self.react(id).await;
        }
        found
    }

    /// Reacts until no work is left.
    async fn settle(&self) {
        loop {
            let mut found = false;
            for reactor in 0..REACTORS {
                found |= self.react_as(reactor).await;
            }
            if !found {
                return;
            }
        }
    }

    /// At rest: leases match runs, each session that needs a slot is in line once, and none waits for a free slot.
    async fn check(&self) {
        let pool = self.app.store.pool(&self.owner).await.unwrap().value;
        let sessions = self.sessions().await;
        let runs: BTreeMap<_, _> = sessions.iter().filter_map(|s| Some((s.id(), s.run()?.id))).collect();
        let leases: BTreeMap<_, _> = pool.leases().iter().map(|(id, lease)| (*id, lease.run_id)).collect();
        assert_eq!(leases, runs, "slots are held by runs");
        assert_eq!(pool.next_waiting(), None, "a session waits although a slot is free: {pool:?}");
        let line: Vec<_> = pool.waiting().iter().map(|waiting| waiting.session_id).collect();
        let distinct: BTreeSet<_> = line.iter().copied().collect();
        assert_eq!(distinct.len(), line.len(), "a session is in line once");
        let wanting: BTreeSet<_> =
            sessions.iter().filter(|s| s.slot_wanted().is_some()).map(AgentSession::id).collect();
        assert_eq!(distinct, wanting, "the sessions in line are those that need a slot");
        let view = self.call("GET", "/pool", Value::Null).await.1;
        assert_eq!(view["waiting"].as_array().unwrap().len(), line.len());
    }
}

/// Starts sessions, and cancels some that may wait, have a slot, or have ended.
async fn starter(fixture: Arc<PoolFixture>, n: usize, sessions: usize) {
    let mut started = Vec::new();
    for i in 0..sessions {
        started.push(fixture.start().await);
        if i % 3 == n % 3 {
            let id = started[i / 2];
            fixture.call("POST", &format!("/sessions/{id}/cancel"), json!({ "force": true })).await;
        }
        if n == 0 {
            fixture.set_slots(1 + i % 4).await;
        }
    }
}

/// Ends runs, and retries some of the sessions.
async fn finisher(fixture: Arc<PoolFixture>, is_over: Arc<AtomicBool>) {
    let mut ended = 0;
    while ended < ENDS / FINISHERS && !is_over.load(Ordering::SeqCst) {
        let leases = fixture.app.store.pool(&fixture.owner).await.unwrap().value.leases().clone();
        for id in leases.into_keys() {
            if fixture.end_run(id).await {
                ended += 1;
                if ended % 3 == 0 {
                    fixture.call("POST", &format!("/sessions/{id}/retry"), json!({})).await;
                }
                break;
            }
        }
        tokio::task::yield_now().await;
    }
}

/// Pulls and releases a brake on all sessions. No run receives a slot in between.
async fn braker(fixture: Arc<PoolFixture>, is_over: Arc<AtomicBool>) {
    while !is_over.load(Ordering::SeqCst) {
        let body = json!({ "scope": { "type": "all" }, "reason": "Stop" });
        let (status, brake) = fixture.send("POST", "/api/brake", body).await;
        assert_eq!(status, 202, "{brake}");
        let brake = brake["id"].as_str().unwrap();
        let before = fixture.leases().await;
        fixture.react_to_brake(brake, 1).await;
        for _ in 0..LOOKS {
            let now = fixture.leases().await;
            assert!(now.iter().all(|(id, lease)| before.get(id) == Some(lease)), "a start passed the brake");
            tokio::task::yield_now().await;
        }
        let (status, body) = fixture.send("POST", &format!("/api/brakes/{brake}/release"), json!({})).await;
        assert_eq!(status, 200, "{body}");
        fixture.react_to_brake(brake, 2).await;
        for _ in 0..LOOKS {
            tokio::task::yield_now().await;
        }
    }
}

async fn reactor(fixture: Arc<PoolFixture>, n: usize, is_over: Arc<AtomicBool>) {
    while !is_over.load(Ordering::SeqCst) {
        fixture.react_as(n).await;
        tokio::task::yield_now().await;
    }
}

/// In any interleaving, no slot stays free while a session waits, and every session gets its turn. Each client starts this number of
/// sessions in each round.
async fn no_wake_up_is_lost(subject: &dyn Subject, rounds: usize, sessions: usize) {
    for _ in 0..rounds {
        let fixture = PoolFixture::new(subject).await;
        fixture.set_slots(2).await;
        let is_over = Arc::new(AtomicBool::new(false));
        let mut others = Vec::new();
        for n in 0..REACTORS {
            others.push(tokio::spawn(reactor(Arc::clone(&fixture), n, Arc::clone(&is_over))));
        }
        for _ in 0..FINISHERS {
            others.push(tokio::spawn(finisher(Arc::clone(&fixture), Arc::clone(&is_over))));
        }
        let starters: Vec<_> =
            (0..STARTERS).map(|n| tokio::spawn(starter(Arc::clone(&fixture), n, sessions))).collect();
        for task in starters {
            task.await.unwrap();
        }
        is_over.store(true, Ordering::SeqCst);
        for task in others {
            task.await.unwrap();
        }
        fixture.settle().await;
        fixture.check().await;
        // From here every end of a run must start the next session.
        loop {
            let leases = fixture.app.store.pool(&fixture.owner).await.unwrap().value.leases().clone();
            let Some(id) = leases.keys().next() else { break };
            fixture.end_run(*id).await;
            fixture.settle().await;
            fixture.check().await;
        }
        let pool = fixture.app.store.pool(&fixture.owner).await.unwrap().value;
        assert!(pool.waiting().is_empty() && fixture.sessions().await.iter().all(|s| s.run().is_none()));
    }
}

/// Whatever the interleaving of brakes with starts, ends and retries, no run receives a slot while a brake is in force.
async fn no_start_passes_a_brake(subject: &dyn Subject, sessions: usize) {
    let fixture = PoolFixture::new(subject).await;
    fixture.set_slots(2).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let mut others = vec![tokio::spawn(braker(Arc::clone(&fixture), Arc::clone(&is_over)))];
    for n in 0..REACTORS {
        others.push(tokio::spawn(reactor(Arc::clone(&fixture), n, Arc::clone(&is_over))));
    }
    for _ in 0..FINISHERS {
        others.push(tokio::spawn(finisher(Arc::clone(&fixture), Arc::clone(&is_over))));
    }
    let starters: Vec<_> =
        (0..STARTERS).map(|n| tokio::spawn(starter(Arc::clone(&fixture), n, sessions))).collect();
    for task in starters {
        task.await.unwrap();
    }
    is_over.store(true, Ordering::SeqCst);
    for task in others {
        task.await.unwrap();
    }
    fixture.settle().await;
    assert!(fixture.sessions().await.iter().all(|session| !session.is_held()), "held by a released brake");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_start_passes_a_brake_on_sqlite() {
    no_start_passes_a_brake(&Sqlite::start().await, 7).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_start_passes_a_brake_on_dynamodb() {
    no_start_passes_a_brake(&Dynamo::start().await, 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_wake_up_is_lost_on_sqlite() {
    no_wake_up_is_lost(&Sqlite::start().await, 3, 7).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_wake_up_is_lost_on_dynamodb() {
    no_wake_up_is_lost(&Dynamo::start().await, 1, 4).await;
}
