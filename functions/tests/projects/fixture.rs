//! A project with one agent, whose session a test drives, and the reactions to its journals.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use axum::body::Body;
use http::Request;
use pilothouse_app::http::auth::VerifiedOwner;
use pilothouse_app::integrations::Integrations;
use pilothouse_app::models::{EmbeddingClient, ModelClient};
use pilothouse_app::{App, FreshIds, Parts};
use pilothouse_broker::OutgoingMessage;
use pilothouse_domain::conversation::Conversation;
use pilothouse_domain::session::AgentFact;
use pilothouse_domain::text::AdapterName;
use pilothouse_domain::value::{AllowedModels, Capabilities, SessionOutcome};
use pilothouse_domain::{
    AgentSessionId, DomainContext, Events, ProjectAgent, ProjectAgentId, ProjectId, ToolCallId, TurnId,
    UserId,
};
use pilothouse_functions::reactions;
use pilothouse_store::table::{Condition, Key, Table as _, Write};
use pilothouse_store::{AggregateRef, LoadedAggregate, LoadedConversation, layout};
use pilothouse_test_support::{EmbeddedEngines, InertRuntime, TestClock, commit_events, received};
use pilothouse_wire::keys::sha256_hex;
use serde_json::{Value, json};
use tower::ServiceExt as _;

pub(crate) struct ProjectFixture {
    pub(crate) app: App,
    pub(crate) project: ProjectId,
    pub(crate) agent: ProjectAgentId,
    pub(crate) session: AgentSessionId,
    clock: TestClock,
    engines: EmbeddedEngines,
}

pub(crate) fn owner() -> UserId {
    UserId::parse("ada").unwrap()
}

/// A request for permission of a tool call.
pub(crate) fn permission(request: &str) -> AgentFact {
    let options = json!([{ "label": "Allow" }, { "label": "Deny" }]);
    let approval = json!({ "toolName": "Bash", "input": "{}", "allow": "Allow", "deny": "Deny" });
    AgentFact::QuestionAsked {
        request: ToolCallId::parse(request).unwrap(),
        questions: vec![
            serde_json::from_value(json!({ "question": "May it?", "options": options })).unwrap(),
        ],
        approval: serde_json::from_value(approval).unwrap(),
        proposal: None,
        timeout: None,
    }
}

async fn send_as(app: &App, owner: &str, method: &str, path: &str, body: Value) -> (u16, Value) {
    send_request(app, owner, Request::builder().method(method).uri(path), body).await
}

async fn send_request(app: &App, owner: &str, request: http::request::Builder, body: Value) -> (u16, Value) {
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    let mut request = request.body(body).unwrap();
    request.extensions_mut().insert(VerifiedOwner(UserId::parse(owner).unwrap()));
    let response = pilothouse_functions::router(app.clone()).oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), 4 << 20).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap())
}

impl ProjectFixture {
    /// A project with an agent whose session has a slot and no process yet. No reaction has run.
    pub(crate) async fn spawned() -> Self {
        let clock = TestClock::at("2026-05-01T12:00:00.000Z".parse().unwrap());
        let engines = EmbeddedEngines::open(clock.as_fn()).await;
        let app = App::new(engines.parts());
        let workstreams = json!([{ "id": "api", "name": "The API" }]);
        let shop = json!({ "name": "Shop", "workstreams": workstreams });
        let (status, shop) = send_as(&app, "ada", "POST", "/api/projects", shop).await;
        assert_eq!(status, 201, "{shop}");
        let agent = json!({
            "brief": { "role": "Builder", "workstream": "api" },
            "objective": "Build it",
            "workingDirectory": "/w",
            "budgetCapUsd": "5",
        });
        let (status, spawned) = send_as(&app, "ada", "POST", "/api/agents/spawn", agent).await;
        assert_eq!(status, 201, "{spawned}");
        let id = |value: &Value| value.as_str().unwrap().to_owned();
        Self {
            app,
            project: id(&shop["id"]).parse().unwrap(),
            agent: id(&spawned["agent"]["id"]).parse().unwrap(),
            session: id(&spawned["session"]["id"]).parse().unwrap(),
            clock,
            engines,
        }
    }

    /// A project with an agent in its first turn. All reactions have run.
    pub(crate) async fn working() -> Self {
        let fixture = Self::spawned().await;
        fixture.react().await;
        fixture.start_turn().await;
        fixture.react().await;
        fixture
    }

    /// The sidecar of the session becomes ready, and its agent starts a turn.
    pub(crate) async fn start_turn(&self) {
        let can = Capabilities {
            pause: true,
            resume_conversation: true,
            hot_reload: true,
            ..Capabilities::default()
        };
        self.observe(AgentFact::SidecarReady(can)).await;
        self.observe(AgentFact::TurnStarted { turn: TurnId::parse("t").unwrap(), message: None }).await;
    }

    /// The server has room for another sidecar, or none, from now on.
    pub(crate) fn set_room(&mut self, has_room: bool) {
        let runtime = InertRuntime { has_room, ..InertRuntime::without_workspace() };
        self.app = App::new(Parts { runtime: Arc::new(runtime), ..self.engines.parts() });
    }

    /// Counts from now on how often room for a sidecar is reserved.
    pub(crate) fn count_reserved_room(&mut self) -> Arc<AtomicUsize> {
        let runtime = InertRuntime::without_workspace();
        let reserved = Arc::clone(&runtime.reserved);
        self.app = App::new(Parts { runtime: Arc::new(runtime), ..self.engines.parts() });
        reserved
    }

    pub(crate) fn set_default_adapter(&mut self, default_adapter: Option<AdapterName>) {
        self.app = App::new(Parts { default_adapter, ..self.engines.parts() });
    }

    /// The operator allows only these models from now on.
    pub(crate) fn allow_models(&mut self, ids: &[&str]) {
        let allowed_models = AllowedModels::new(ids.iter().map(ToString::to_string).collect()).unwrap();
        self.app = App::new(Parts { allowed_models, ..self.engines.parts() });
    }

    /// The server is configured with a model from now on.
    pub(crate) fn set_model(&mut self, model: ModelClient) {
        self.set_models(Some(model), None);
    }

    /// The server is configured with these models from now on.
    pub(crate) fn set_models(&mut self, model: Option<ModelClient>, embeddings: Option<EmbeddingClient>) {
        let integrations = Integrations {
            has_model: model.is_some(),
            model,
            has_embeddings: embeddings.is_some(),
            embeddings,
            ..Integrations::default()
        };
        self.app = App::new(Parts { integrations, ..self.engines.parts() });
    }

    /// The folders of sessions outlast their processes from now on.
    pub(crate) fn keep_workspaces(&mut self) {
        let runtime = InertRuntime::with_workspace("kept");
        self.app = App::new(Parts { runtime: Arc::new(runtime), ..self.engines.parts() });
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        self.send_as("ada", method, path, body).await
    }

    /// Sends a POST request with an idempotency key.
    pub(crate) async fn post_with_key(&self, key: &str, path: &str, body: Value) -> (u16, Value) {
        let request = Request::builder().method("POST").uri(path).header("Idempotency-Key", key);
        send_request(&self.app, "ada", request, body).await
    }

    pub(crate) async fn send_as(&self, owner: &str, method: &str, path: &str, body: Value) -> (u16, Value) {
        send_as(&self.app, owner, method, path, body).await
    }

    pub(crate) fn session_path(&self, action: &str) -> String {
        format!("/api/agents/sessions/{}{action}", self.session)
    }

    /// Changes the session in one commit.
    pub(crate) async fn change(
        &self,
        loaded: &mut LoadedConversation,
        change: impl FnOnce(&mut Conversation, &mut DomainContext<'_>) -> Events,
    ) {
        let mut ids = FreshIds;
        let mut ctx = self.app.domain_context(&mut ids);
        let events = change(&mut loaded.conversation, &mut ctx);
        let events = self.app.with_consequences(&mut loaded.conversation, events, &mut ctx);
        commit_events(&self.app, loaded.clone(), events).await;
    }

    pub(crate) async fn observe(&self, fact: AgentFact) {
        self.observe_in(self.session, fact).await;
    }

    pub(crate) async fn observe_in(&self, session: AgentSessionId, fact: AgentFact) {
        let mut loaded = self.app.store.conversation(session).await.unwrap().unwrap();
        let key = sha256_hex(self.app.secret.api_key(session, 0).as_bytes());
        self.change(&mut loaded, |it, ctx| it.observe(fact, &key, ctx).events).await;
    }

    pub(crate) async fn complete_turn(&self, with_output: bool) {
        let turn = TurnId::parse("t").unwrap();
        let output = with_output.then(Default::default);
        self.observe(AgentFact::TurnCompleted { turn, output, outcome: SessionOutcome::Completed }).await;
    }

    /// Ends the process of the session.
    pub(crate) async fn end_run(&self) {
        let mut loaded = self.app.store.conversation(self.session).await.unwrap().unwrap();
        let run = loaded.conversation.session.run().unwrap().id;
        self.change(&mut loaded, |it, ctx| it.run_ended(run, true, None, ctx).unwrap()).await;
    }

    /// Pulls a brake on all sessions, lets it take effect, and releases it.
    pub(crate) async fn pull_and_release(&self) -> String {
        let body = json!({ "scope": { "type": "all" }, "reason": "Stop" });
        let (status, body) = self.send("POST", "/api/brake", body).await;
        assert_eq!(status, 202, "{body}");
        let brake = body["id"].as_str().unwrap().to_owned();
        self.react_to("brake", &brake, 1).await;
        let (status, body) = self.send("POST", &format!("/api/brakes/{brake}/release"), json!({})).await;
        assert_eq!(status, 200, "{body}");
        self.react_to("brake", &brake, 2).await;
        brake
    }

    /// The number of contents that sessions have.
    pub(crate) fn stored_blobs(&self) -> usize {
        let Ok(sessions) = std::fs::read_dir(self.engines.folder().join("blobs/sessions")) else { return 0 };
        sessions.map(|session| std::fs::read_dir(session.unwrap().path()).unwrap().count()).sum()
    }

    /// Removes an entry of the session's journal, as the retention of records does.
    pub(crate) async fn expire_entry(&self, sequence: u64) {
        let key = Key::new(layout::session_partition(self.session), format!("J#{sequence:016}"));
        self.engines.table.transact(vec![Write::Delete(key, Condition::Always)]).await.unwrap();
    }

    async fn process(&self, message: OutgoingMessage) {
        assert_eq!(reactions::process(&self.app, vec![received(message)]).await.done.len(), 1);
    }

    async fn messages(&self, session: AgentSessionId) -> Vec<OutgoingMessage> {
        let entries = self.app.store.journal(session, 0, 1000).await.unwrap();
        entries.iter().filter_map(reactions::message).collect()
    }

    /// Reacts to all journal entries of the session, again if that happened before.
    pub(crate) async fn react(&self) {
        self.react_of(self.session).await;
    }

    pub(crate) async fn react_of(&self, session: AgentSessionId) {
        for message in self.messages(session).await {
            self.process(message).await;
        }
    }

    pub(crate) async fn react_backwards(&self) {
        for message in self.messages(self.session).await.into_iter().rev() {
            self.process(message).await;
        }
    }

    /// Reacts to one journal entry of an aggregate.
    pub(crate) async fn react_to(&self, kind: &str, id: &str, sequence: u64) {
        let aggregate = AggregateRef { kind: kind.to_owned(), id: id.to_owned() };
        let entry = self.app.store.aggregate_journal_entry(&aggregate, sequence).await.unwrap().unwrap();
        self.process(reactions::message_for_aggregate(&entry).unwrap()).await;
    }

    /// Reacts to all journal entries of the agent.
    pub(crate) async fn react_to_agent(&self) {
        let version = self.loaded_agent().await.version;
        let aggregate = AggregateRef { kind: "agent".to_owned(), id: self.agent.to_string() };
        for sequence in 1..=version {
            let entry = self.app.store.aggregate_journal_entry(&aggregate, sequence).await.unwrap().unwrap();
            if let Some(message) = reactions::message_for_aggregate(&entry) {
                self.process(message).await;
            }
        }
    }

    pub(crate) async fn loaded_agent(&self) -> LoadedAggregate<ProjectAgent> {
        self.app.store.aggregate(&owner(), self.agent).await.unwrap().unwrap()
    }

    pub(crate) async fn score(&self) -> String {
        let time = self.app.project_time(self.project).await.unwrap().unwrap();
        let tick = time.tick(self.app.now()).unwrap();
        let agent = self.loaded_agent().await.value;
        agent.trust().score(tick, &time.project.value.definition().trust).to_string()
    }
}
