//! Races of units of work: a lost race decides again, a repeated request gets the stored response, and ids are minted once.
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use axum::body::Body;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::Request;
use pilothouse_app::http::auth::VerifiedOwner;
use pilothouse_app::{App, FreshIds, Parts};
use pilothouse_domain::UserId;
use pilothouse_domain::session::AgentFact;
use pilothouse_domain::value::Capabilities;
use pilothouse_store::Store;
use pilothouse_store::sqlite::SqliteTable;
use pilothouse_store::table::{Item, Key, Page, Query, Table, TableError, Write};
use pilothouse_test_support::{
    EmbeddedEngines, FaultyTable, TestClock, commit_events, create_session_with_run, new_session,
};
use pilothouse_wire::keys::sha256_hex;
use serde_json::{Value, json};
use tower::ServiceExt as _;

const SKILLS: &str = "/api/agents/skills";
const LEARNINGS: &str = "/api/agent/learnings";
const WEBHOOKS: &str = "/api/webhooks";

/// An app on a faulty table. Clones share the table.
#[derive(Clone)]
struct RaceFixture {
    app: App,
    table: FaultyTable,
    engines: Arc<EmbeddedEngines>,
}

/// A request of the owner, or of the agent with this API key.
#[derive(Clone)]
struct Call {
    agent: Option<String>,
    path: &'static str,
    body: Value,
    key: Option<&'static str>,
}

#[derive(Debug, Clone, PartialEq)]
struct Reply {
    status: u16,
    body: Value,
    replayed: bool,
}

impl RaceFixture {
    async fn new() -> Self {
        let clock = TestClock::at("2026-05-01T12:00:00.000Z".parse().unwrap());
        let engines = Arc::new(EmbeddedEngines::open(clock.as_fn()).await);
        let table = FaultyTable::new(engines.table.clone());
        let app = App::new(Parts { store: Store::new(Arc::new(table.clone())), ..engines.parts() });
        Self { app, table, engines }
    }

    async fn send(&self, call: Call) -> Reply {
        let mut request = Request::builder().method("POST").uri(call.path);
        if let Some(key) = call.key {
            request = request.header("idempotency-key", key);
        }
        if let Some(agent) = &call.agent {
            request = request.header("authorization", format!("Bearer {agent}"));
        }
        let mut request = request.body(Body::from(call.body.to_string())).unwrap();
        request.extensions_mut().insert(VerifiedOwner(owner()));
        let response = pilothouse_functions::router(self.app.clone()).oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let replayed = response.headers().contains_key("idempotency-replayed");
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        Reply { status, body: serde_json::from_slice(&body).unwrap_or_default(), replayed }
    }

    /// Sends the call, and stores its reply in the returned place.
    fn duplicate(&self, call: &Call) -> (BoxFuture<'static, ()>, Arc<Mutex<Option<Reply>>>) {
        let reply = Arc::new(Mutex::new(None));
        let (fixture, call, place) = (self.clone(), call.clone(), Arc::clone(&reply));
        let sent = async move {
            let reply = fixture.send(call).await;
            *place.lock().unwrap() = Some(reply);
        };
        (sent.boxed(), reply)
    }

    /// The API key of an agent that is at work.
    async fn agent(&self) -> String {
        let (id, _) = create_session_with_run(&self.app, new_session(&owner(), "5")).await;
        let key = self.app.secret.api_key(id, 0);
        let mut loaded = self.app.store.conversation(id).await.unwrap().unwrap();
        let mut ids = FreshIds;
        let mut ctx = self.app.domain_context(&mut ids);
        let ready = AgentFact::SidecarReady(Capabilities::default());
        let events = loaded.conversation.observe(ready, &sha256_hex(key.as_bytes()), &mut ctx).events;
        commit_events(&self.app, loaded, events).await;
        key
    }

    async fn names_of_skills(&self) -> Vec<(Value, Value)> {
        let request = Request::get(SKILLS).extension(VerifiedOwner(owner())).body(Body::empty()).unwrap();
        let response = pilothouse_functions::router(self.app.clone()).oneshot(request).await.unwrap();
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        let items = body["items"].as_array().unwrap();
        items.iter().map(|skill| (skill["id"].clone(), skill["name"].clone())).collect()
    }
}

fn owner() -> UserId {
    UserId::parse("ada").unwrap()
}

fn creation(key: Option<&'static str>) -> Call {
    Call { agent: None, path: SKILLS, body: json!({ "name": "Testing", "description": "How" }), key }
}

fn learning(agent: &str, key: Option<&'static str>) -> Call {
    let body = json!({ "kind": "Communication", "content": "Ada reads no mail on Fridays" });
    Call { agent: Some(agent.to_owned()), path: LEARNINGS, body, key }
}

/// Asserts that the call got the response of its duplicate.
#[track_caller]
fn assert_replays(reply: &Reply, duplicate: &Mutex<Option<Reply>>) {
    let first = duplicate.lock().unwrap().clone().unwrap();
    assert_eq!((first.status, first.replayed), (201, false), "{first:?}");
    assert_eq!(reply, &Reply { replayed: true, ..first });
}

/// A table whose transactions become visible item by item: first the reservation of a name, the rest on demand.
#[derive(Clone)]
struct ItemByItem {
    table: SqliteTable,
    rest: Arc<Mutex<Vec<Item>>>,
}

impl ItemByItem {
    async fn show_rest(&self) {
        let rest = std::mem::take(&mut *self.rest.lock().unwrap());
        self.table.put_all(rest).await.unwrap();
    }
}

#[async_trait]
impl Table for ItemByItem {
    async fn get(&self, key: &Key) -> Result<Option<Item>, TableError> {
        self.table.get(key).await
    }

    async fn query(&self, query: &Query) -> Result<Page, TableError> {
        self.table.query(query).await
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<(), TableError> {
        let items = writes.into_iter().filter_map(|write| match write {
            Write::Put(item, _) => Some(item),
            Write::Delete(..) | Write::Check(..) => None,
        });
        let (name, rest): (Vec<_>, _) = items.partition(|item| item.kind == "name");
        *self.rest.lock().unwrap() = rest;
        self.table.put_all(name).await
    }

    async fn put_all(&self, items: Vec<Item>) -> Result<(), TableError> {
        self.table.put_all(items).await
    }
}

#[tokio::test]
async fn lost_race_decides_again_on_the_new_state() {
    let fixture = RaceFixture::new().await;
    let (agent, call) = (fixture.agent().await, learning);
    let (other, first) = fixture.duplicate(&call(&agent, None));
    fixture.table.before_next_commit(other);
    let second = fixture.send(call(&agent, None)).await;
    let first = first.lock().unwrap().take().unwrap();
    assert_eq!((first.status, second.status), (201, 201), "{first:?} {second:?}");
    assert_ne!(first.body, second.body);
}

#[tokio::test]
async fn agent_call_refused_by_its_duplicate_gets_its_response() {
    let fixture = RaceFixture::new().await;
    let agent = fixture.agent().await;
    for _ in 0..59 {
        assert_eq!(fixture.send(learning(&agent, None)).await.status, 201);
    }
    // The duplicate is the last call that the rate limit admits.
    let call = learning(&agent, Some("once"));
    let (duplicate, first) = fixture.duplicate(&call);
    fixture.table.before_next_read_of("CALLS", duplicate);
    assert_replays(&fixture.send(call).await, &first);
    assert_eq!(fixture.send(learning(&agent, Some("another"))).await.status, 429);
}

#[tokio::test]
async fn registration_refused_by_its_duplicate_gets_its_response() {
    let fixture = RaceFixture::new().await;
    let body = json!({ "url": "https://one.example/" });
    let call = |key| Call { agent: None, path: WEBHOOKS, body: body.clone(), key };
    for _ in 0..19 {
        assert_eq!(fixture.send(call(None)).await.status, 201);
    }
    let (duplicate, first) = fixture.duplicate(&call(Some("once")));
    fixture.table.before_next_read_of("WEBHOOKS", duplicate);
    assert_replays(&fixture.send(call(Some("once"))).await, &first);
    assert_eq!(fixture.send(call(Some("another"))).await.status, 422);
}

#[tokio::test]
async fn creation_gets_the_response_of_the_duplicate_with_its_name() {
    let fixture = RaceFixture::new().await;
    let call = creation(Some("once"));
    let (duplicate, first) = fixture.duplicate(&call);
    fixture.table.before_next_commit(duplicate);
    assert_replays(&fixture.send(call).await, &first);
}

#[tokio::test]
async fn creation_waits_for_the_duplicate_that_shows_only_its_name() {
    let fixture = RaceFixture::new().await;
    let slow = ItemByItem { table: fixture.engines.table.clone(), rest: Arc::default() };
    let app = App::new(Parts { store: Store::new(Arc::new(slow.clone())), ..fixture.engines.parts() });
    let call = creation(Some("once"));
    let (duplicate, first) = RaceFixture { app, ..fixture.clone() }.duplicate(&call);
    let table = fixture.table.clone();
    fixture.table.before_next_commit(
        async move {
            duplicate.await;
            table.before_next_commit(async move { slow.show_rest().await }.boxed());
        }
        .boxed(),
    );
    assert_replays(&fixture.send(call).await, &first);
}

#[tokio::test]
async fn response_is_stored_under_the_sha_256_of_its_key() {
    let fixture = RaceFixture::new().await;
    assert_eq!(fixture.send(creation(Some("once"))).await.status, 201);
    let store = &fixture.app.store;
    let hash = sha256_hex(b"once");
    assert!(store.stored_response(&owner(), &hash).await.unwrap().is_some());
    assert!(store.stored_response(&owner(), "once").await.unwrap().is_none(), "the key itself");
}

#[tokio::test]
async fn name_of_another_aggregate_is_refused() {
    let fixture = RaceFixture::new().await;
    assert_eq!(fixture.send(creation(None)).await.status, 201);
    for key in [None, Some("once")] {
        let refused = fixture.send(creation(key)).await;
        assert_eq!((refused.status, &refused.body["code"]), (409, &json!("name-taken")));
    }
}

#[tokio::test]
async fn creation_is_recognised_when_its_outcome_was_lost() {
    for key in [None, Some("once")] {
        let fixture = RaceFixture::new().await;
        fixture.table.lose_next_outcome();
        let created = fixture.send(creation(key)).await;
        assert_eq!(created.status, 201, "{created:?}");
        assert_eq!(fixture.names_of_skills().await, [(created.body["id"].clone(), json!("Testing"))]);
    }
}
