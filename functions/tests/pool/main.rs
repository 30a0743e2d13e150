//! The waiting line of a pool when one of its sessions no longer exists, and the requests that it limits (decision 21).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod brakes;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Body;
use http::Request;
use pilothouse_app::http::auth::VerifiedOwner;
use pilothouse_app::{App, FreshIds, Parts};
use pilothouse_domain::announcement::publishes;
use pilothouse_domain::journal::Cause;
use pilothouse_domain::pool::{Allocation, SessionPool};
use pilothouse_domain::{AgentSession, AgentSessionId, SessionEvent, UserId};
use pilothouse_functions::reactions;
use pilothouse_store::table::{Condition, Key, Table as _, Write};
use pilothouse_store::{Commit, system_clock};
use pilothouse_test_support::{EmbeddedEngines, InertRuntime, new_session, received};
use serde_json::{Value, json};
use tower::ServiceExt as _;

struct PoolFixture {
    app: App,
    engines: EmbeddedEngines,
}

impl PoolFixture {
    async fn open() -> Self {
        let engines = EmbeddedEngines::open(system_clock()).await;
        Self { app: App::new(engines.parts()), engines }
    }

    fn set_runtime(&mut self, runtime: InertRuntime) {
        self.app = App::new(Parts { runtime: Arc::new(runtime), ..self.engines.parts() });
    }

    async fn call(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        self.send(method, &format!("/api/agents{path}"), body).await
    }

    async fn send(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let mut request =
            Request::builder().method(method).uri(path).body(Body::from(body.to_string())).unwrap();
        request.extensions_mut().insert(VerifiedOwner(UserId::parse("ada").unwrap()));
        let response = pilothouse_functions::router(self.app.clone()).oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), 4 << 20).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    async fn set_slots(&self, slots: usize) {
        let (status, body) = self.call("PATCH", "/pool", json!({ "maxConcurrentSessions": slots })).await;
        assert_eq!(status, 200, "{body}");
    }

    async fn start(&self, status: u16) -> AgentSessionId {
        let body = json!({ "workingDirectory": "/w", "objective": "Do it", "budgetCapUsd": "1" });
        let (actual, body) = self.call("POST", "/sessions", body).await;
        assert_eq!(actual, status, "{body}");
        body["session"]["id"].as_str().unwrap().parse().unwrap()
    }

    /// Adds sessions to the line, without storing the sessions.
    async fn join_many(&self, count: usize) -> Vec<String> {
        let owner = UserId::parse("ada").unwrap();
        let mut joined = Vec::new();
        while joined.len() < count {
            let mut pool = self.app.store.pool(&owner).await.unwrap();
            for _ in 0..(count - joined.len()).min(40) {
                let mut ids = FreshIds;
                let mut ctx = self.app.domain_context(&mut ids);
                let (mut session, _) = AgentSession::create(new_session(&owner, "1"), &ctx);
                joined.push(session.id().to_string());
                assert_eq!(pool.value.allocate(&mut session, &mut ctx).unwrap().0, Allocation::Waits);
            }
            let mut commit = Commit::new();
            commit.pool(&owner, &pool).unwrap();
            self.app.store.commit(commit).await.unwrap();
        }
        joined
    }

    async fn delete(&self, id: AgentSessionId) {
        let key = Key::new(format!("S#{id}"), "SESSION");
        self.engines.table.transact(vec![Write::Delete(key, Condition::Version(1))]).await.unwrap();
    }

    /// Reacts to the whole journal of a session.
    async fn react(&self, id: AgentSessionId) {
        let entries = self.app.store.journal(id, 0, 100).await.unwrap();
        for message in entries.iter().filter_map(reactions::message) {
            assert_eq!(reactions::process(&self.app, vec![received(message)]).await.done.len(), 1);
        }
    }

    async fn has_run(&self, id: AgentSessionId) -> bool {
        self.app.store.session(id).await.unwrap().unwrap().run().is_some()
    }

    async fn line(&self) -> Vec<String> {
        let pool = self.call("GET", "/pool", Value::Null).await.1;
        let waiting = pool["waiting"].as_array().unwrap();
        waiting.iter().map(|waiting| waiting["sessionId"].as_str().unwrap().to_owned()).collect()
    }
}

/// A burst of starts that wait does not use up the room for sidecars.
#[tokio::test]
async fn only_a_start_with_a_slot_reserves_room_for_a_sidecar() {
    let mut fixture = PoolFixture::open().await;
    let runtime = InertRuntime::without_workspace();
    let reserved = Arc::clone(&runtime.reserved);
    let full = InertRuntime { has_room: false, ..runtime.clone() };
    fixture.set_slots(1).await;
    fixture.set_runtime(full.clone());
    let body = json!({ "workingDirectory": "/w", "objective": "Do it", "budgetCapUsd": "1" });
    let (status, body) = fixture.call("POST", "/sessions", body).await;
    assert_eq!((status, &body["code"]), (503, &json!("server-at-capacity")), "{body}");

    fixture.set_runtime(runtime);
    fixture.start(201).await;
    fixture.start(202).await;
    assert_eq!(reserved.load(Ordering::Relaxed), 1);

    fixture.set_runtime(full);
    let waiting = fixture.start(202).await;
    assert!(fixture.line().await.contains(&waiting.to_string()));
}

/// A raised maximum starts the sessions behind one that no longer exists.
#[tokio::test]
async fn configure_skips_a_waiting_session_that_no_longer_exists() {
    let fixture = PoolFixture::open().await;
    fixture.set_slots(1).await;
    fixture.start(201).await;
    let deleted = [fixture.start(202).await, fixture.start(202).await];
    let waiting = fixture.start(202).await;
    for id in deleted {
        fixture.delete(id).await;
    }
    fixture.set_slots(2).await;
    let entries = fixture.app.store.journal(waiting, 0, 100).await.unwrap();
    let configured = SessionEvent::PoolConfigured { max_count: 2, next: Some(waiting) };
    assert!(entries.iter().any(|entry| entry.events.contains(&configured)), "{entries:?}");
    fixture.react(waiting).await;
    assert!(fixture.has_run(waiting).await && fixture.line().await.is_empty());
}

/// If no session of the line exists, a new one finds the slot by its own reaction.
#[tokio::test]
async fn start_passes_waiting_sessions_that_no_longer_exist() {
    let fixture = PoolFixture::open().await;
    fixture.set_slots(1).await;
    fixture.start(201).await;
    let deleted = fixture.start(202).await;
    fixture.delete(deleted).await;
    fixture.set_slots(2).await;
    let new = fixture.start(202).await;
    fixture.react(new).await;
    assert!(fixture.has_run(new).await && fixture.line().await.is_empty());
    fixture.set_slots(3).await;
    fixture.start(201).await;
}

/// The line keeps the order in which the sessions joined, also across its pages, and refuses the session after its last place.
#[tokio::test]
async fn long_line_keeps_its_order_and_its_limit() {
    let fixture = PoolFixture::open().await;
    fixture.set_slots(1).await;
    fixture.start(201).await;
    let mut ids = fixture.join_many(SessionPool::MAX_WAITING - 1).await;
    let last = fixture.start(202).await;
    ids.push(last.to_string());
    assert_eq!(fixture.line().await, ids);
    let body = json!({ "workingDirectory": "/w", "objective": "Do it", "budgetCapUsd": "1" });
    let (status, body) = fixture.call("POST", "/sessions", body).await;
    assert_eq!((status, &body["code"]), (409, &json!("pool-line-full")), "{body}");
    fixture.call("POST", &format!("/sessions/{last}/cancel"), json!({})).await;
    fixture.react(last).await;
    ids.pop();
    assert_eq!(fixture.line().await, ids);
    fixture.start(202).await;
}

impl PoolFixture {
    /// Ends the run of a session, and reacts to it.
    async fn end_run(&self, id: AgentSessionId) {
        let mut loaded = self.app.store.conversation(id).await.unwrap().unwrap();
        let run = loaded.conversation.session.run().unwrap().id;
        let mut ids = FreshIds;
        let mut ctx = self.app.domain_context(&mut ids);
        let events = loaded.conversation.run_ended(run, true, None, &mut ctx).unwrap();
        let events = self.app.with_consequences(&mut loaded.conversation, events, &mut ctx);
        let mut commit = Commit::new();
        self.app.record(&mut commit, &mut loaded, Cause::Clock, events).unwrap();
        self.app.store.commit(commit).await.unwrap();
        self.react(id).await;
    }
}

/// The end of a run frees its slot, and the journal of the session has the counts of the pool, once.
#[tokio::test]
async fn slot_of_an_ended_run_is_released_in_the_journal() {
    let fixture = PoolFixture::open().await;
    let id = fixture.idle().await;
    fixture.end_run(id).await;
    fixture.react(id).await;
    let entries = fixture.app.store.journal(id, 0, 100).await.unwrap();
    let released = SessionEvent::SlotReleased { active_count: 0, max_count: SessionPool::DEFAULT_MAX };
    let released: Vec<_> = entries.iter().filter(|entry| entry.events.contains(&released)).collect();
    assert_eq!(released.len(), 1, "{entries:#?}");
    assert!(publishes(released[0]), "other contexts learn of the free slot");
}

/// A session that wakes up and finds no free slot says why it does not run.
#[tokio::test]
async fn wake_without_a_slot_shows_its_reason() {
    let fixture = PoolFixture::open().await;
    let id = fixture.idle().await;
    fixture.end_run(id).await;
    fixture.set_slots(1).await;
    fixture.start(201).await;
    let view = async || fixture.call("GET", &format!("/sessions/{id}"), Value::Null).await.1;
    assert_eq!(view().await["queuedReason"], Value::Null, "it rests");
    let message = json!({ "content": "Go on", "priority": "Queued" });
    let (status, body) = fixture.call("POST", &format!("/sessions/{id}/messages/queue"), message).await;
    assert!(status < 300, "{body}");
    fixture.react(id).await;
    let view = view().await;
    assert_eq!(view["queuedReason"], "pool-exhausted", "{view:#}");
}
