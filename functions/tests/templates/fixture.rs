//! An app with a manual clock, and requests of owners.

use axum::body::Body;
use http::Request;
use pilothouse_app::http::auth::VerifiedOwner;
use pilothouse_app::{App, FreshIds, Parts};
use pilothouse_domain::journal::AnyAggregateEntry;
use pilothouse_domain::session::AgentFact;
use pilothouse_domain::value::{AllowedModels, Capabilities};
use pilothouse_domain::{AgentTemplateId, TemplateEvent, UserId};
use pilothouse_functions::events::clock;
use pilothouse_store::AggregateRef;
use pilothouse_test_support::{EmbeddedEngines, TestClock, commit_events};
use serde_json::{Value, json};
use tower::ServiceExt as _;

pub(crate) struct TemplatesFixture {
    pub(crate) app: App,
    clock: TestClock,
    engines: EmbeddedEngines,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl Reply {
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{:#}", self.body);
        self.body
    }

    #[track_caller]
    pub(crate) fn violations(self) -> Vec<String> {
        let body = self.expect(422);
        let mut fields: Vec<_> = body["violations"]
            .as_array()
            .unwrap()
            .iter()
            .map(|v| v["field"].as_str().unwrap().to_owned())
            .collect();
        fields.sort();
        fields
    }

    #[track_caller]
    pub(crate) fn code(self, status: u16) -> String {
        self.expect(status)["code"].as_str().unwrap().to_owned()
    }
}

impl TemplatesFixture {
    pub(crate) async fn at(now: &str) -> Self {
        let clock = TestClock::at(now.parse().unwrap());
        let engines = EmbeddedEngines::open(clock.as_fn()).await;
        let app = App::new(engines.parts());
        Self { app, clock, engines }
    }

    /// The operator allows only these models from now on.
    pub(crate) fn allow_models(&mut self, ids: &[&str]) {
        let allowed_models = AllowedModels::new(ids.iter().map(ToString::to_string).collect()).unwrap();
        self.app = App::new(Parts { allowed_models, ..self.engines.parts() });
    }

    /// The operator has removed the default adapter.
    pub(crate) fn without_default_adapter(&mut self) {
        self.app = App::new(Parts { default_adapter: None, ..self.engines.parts() });
    }

    pub(crate) fn set(&self, now: &str) {
        self.clock.set(now.parse().unwrap());
    }

    pub(crate) async fn tick(&self) {
        clock::tick(&self.app).await.unwrap();
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, body: Value) -> Reply {
        self.ask_as("ada", method, path, body, None).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, Value::Null).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Reply {
        self.ask("POST", path, body).await
    }

    pub(crate) async fn ask_as(
        &self,
        owner: &str,
        method: &str,
        path: &str,
        body: Value,
        key: Option<&str>,
    ) -> Reply {
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let mut request = Request::builder().method(method).uri(format!("/api/agents{path}"));
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let mut request = request.body(body).unwrap();
        request.extensions_mut().insert(VerifiedOwner(UserId::parse(owner).unwrap()));
        let response = pilothouse_functions::router(self.app.clone()).oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        Reply { status, body: serde_json::from_slice(&body).unwrap_or_default() }
    }

    pub(crate) async fn template(&self, more: Value) -> String {
        let made = self.post("/templates", template(more)).await.expect(201);
        format!("/templates/{}", made["id"].as_str().unwrap())
    }

    pub(crate) async fn skill(&self, name: &str) -> String {
        let made =
            self.post("/skills", json!({ "name": name, "description": "For tests" })).await.expect(201);
        made["id"].as_str().unwrap().to_owned()
    }

    /// Oldest first.
    pub(crate) async fn sessions(&self) -> Vec<Value> {
        let mut page = self.get("/sessions?limit=200").await.expect(200);
        let mut items = std::mem::take(page["items"].as_array_mut().unwrap());
        items.reverse();
        items
    }

    /// Records that the spend of a session's agent is unknown, as its sidecar reports it.
    pub(crate) async fn is_unmetered(&self, session: &Value) {
        let id = session["id"].as_str().unwrap().parse().unwrap();
        let mut loaded = self.app.store.conversation(id).await.unwrap().unwrap();
        let mut ids = FreshIds;
        let ready = AgentFact::SidecarReady(Capabilities { unmetered: true, ..Capabilities::default() });
        let observed = loaded.conversation.observe(ready, "hash", &mut self.app.domain_context(&mut ids));
        commit_events(&self.app, loaded, observed.events).await;
    }

    pub(crate) async fn journal(&self, path: &str) -> Vec<TemplateEvent> {
        let id: AgentTemplateId = path.trim_start_matches("/templates/").parse().unwrap();
        let of = AggregateRef { kind: "template".to_owned(), id: id.to_string() };
        let mut events = Vec::new();
        for sequence in 1.. {
            match self.app.store.aggregate_journal_entry(&of, sequence).await.unwrap() {
                Some(AnyAggregateEntry::Template(entry)) => events.extend(entry.events),
                None => break,
                other => panic!("{other:?}"),
            }
        }
        events
    }
}

/// The smallest valid template, extended by `more`.
pub(crate) fn template(more: Value) -> Value {
    let mut all = json!({
        "name": "Triage", "modelId": "small", "allowedTools": ["Read"], "defaultBudgetCapUsd": "2",
    });
    if let (Some(all), Value::Object(more)) = (all.as_object_mut(), more) {
        all.extend(more);
    }
    all
}

pub(crate) fn schedule(cron: &str) -> Value {
    json!({
        "cronExpression": cron, "timeZone": "Europe/Berlin",
        "launch": { "workingDirectory": "/work", "objective": "Tidy up" },
    })
}
