//! The parts of the control plane that workers need, on the embedded engines, used through the router.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, to_bytes};
use http::Request;
use pilothouse_app::http::auth::VerifiedOwner;
use pilothouse_app::placement::{WorkerAssigner, WorkerRuntime};
use pilothouse_app::{App, Parts, queues};
use pilothouse_app::{Fleet, FreshIds};
use pilothouse_broker::Broker as _;
use pilothouse_broker::embedded::EmbeddedBroker;
use pilothouse_domain::{AgentSessionId, RunId, Timestamp, UserId};
use pilothouse_functions::catalog;
use pilothouse_runtime::{CredentialVendor, VendError};
use pilothouse_store::WorkerKey;
use pilothouse_test_support::{
    EmbeddedEngines, TestClock, commit_events, create_session_with_run, launch_request, new_session,
};
use pilothouse_wire::RootSecret;
use pilothouse_wire::gateway::RunCredentials;
use pilothouse_wire::launch::{LaunchRequest, RunAccessIssuer};
use pilothouse_wire::worker::{Order, QueueCredentials};
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// Credentials that name their purpose.
struct Vendor;

#[async_trait]
impl CredentialVendor for Vendor {
    async fn for_run(&self, session: AgentSessionId, run: RunId) -> Result<RunCredentials, VendError> {
        Ok(RunCredentials {
            access_key_id: "run".into(),
            secret_access_key: "secret".into(),
            session_token: "token".into(),
            expires_at: Timestamp::from_millis(0),
            region: "nowhere".into(),
            endpoint: None,
            events_queue_url: "events".into(),
            commands_queue_url: run.to_string(),
            bucket: "bodies".into(),
            blob_prefix: format!("sessions/{session}/"),
        })
    }

    async fn for_drain(&self, session: AgentSessionId, run: RunId) -> Result<RunCredentials, VendError> {
        Ok(RunCredentials { access_key_id: "leftovers".into(), ..self.for_run(session, run).await? })
    }

    async fn for_queue(&self, queue: &str) -> Result<QueueCredentials, VendError> {
        Ok(QueueCredentials {
            access_key_id: "worker".into(),
            secret_access_key: "secret".into(),
            session_token: "token".into(),
            expires_at: Timestamp::from_millis(0),
            region: "nowhere".into(),
            endpoint: None,
            queue_url: queue.to_owned(),
        })
    }
}

/// The control plane of a deployment with the operator `operator`.
pub(crate) struct WorkersFixture {
    pub(crate) app: App,
    pub(crate) runtime: WorkerRuntime,
    pub(crate) broker: EmbeddedBroker,
    pub(crate) secret: RootSecret,
    router: Router,
    clock: TestClock,
    _engines: EmbeddedEngines,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl WorkersFixture {
    pub(crate) async fn new() -> Self {
        Self::with(None).await
    }

    /// Credentials are issued in the cloud.
    pub(crate) async fn in_the_cloud() -> Self {
        Self::with(Some(Arc::new(Vendor))).await
    }

    async fn with(vendor: Option<Arc<dyn CredentialVendor>>) -> Self {
        let clock = TestClock::system();
        let engines = EmbeddedEngines::open(clock.as_fn()).await;
        let (broker, parts) = (engines.broker.clone(), engines.parts());
        let secret = parts.secret.clone();
        let dispatch = WorkerAssigner::new(
            parts.store.clone(),
            Arc::new(broker.clone()),
            secret.clone(),
            &parts.deadlines,
            clock.as_fn(),
        );
        let runtime = WorkerRuntime::new(dispatch);
        let run_access_issuer =
            RunAccessIssuer { sqs: vendor.is_some(), ..RunAccessIssuer::via_gateway("http://control.plane") };
        let operators = [UserId::parse("operator").unwrap()].into();
        let app = App::new(Parts {
            runtime: Arc::new(runtime.clone()),
            fleet: Some(Fleet { run_access_issuer, vendor, operators }),
            ..parts
        });
        let router =
            pilothouse_app::function::router_of(app.clone(), catalog::HTTP_FUNCTIONS.iter().copied());
        Self { app, runtime, broker, secret, router, clock, _engines: engines }
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }

    pub(crate) async fn session(&self, owner: &str) -> LaunchRequest {
        let new = new_session(&UserId::parse(owner).unwrap(), "5");
        let (session_id, run_id) = create_session_with_run(&self.app, new).await;
        LaunchRequest { session_id, run_id, ..launch_request() }
    }

    /// Ends the run of a session, as if its process exited.
    pub(crate) async fn end(&self, request: &LaunchRequest) {
        let mut loaded = self.app.store.conversation(request.session_id).await.unwrap().unwrap();
        let mut ids = FreshIds;
        let mut ctx = self.app.domain_context(&mut ids);
        let events = loaded.conversation.run_ended(request.run_id, true, None, &mut ctx).unwrap();
        commit_events(&self.app, loaded, events).await;
    }

    /// Creates a session of `owner` and launches its run.
    pub(crate) async fn launched(&self, owner: &str, labels: &[(&str, &str)]) -> LaunchRequest {
        let mut request = self.session(owner).await;
        request.worker_labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        self.app.runtime.launch(request.clone()).await.unwrap();
        request
    }

    pub(crate) async fn send(
        &self,
        owner: Result<&str, &str>,
        method: &str,
        path: &str,
        body: Value,
    ) -> Reply {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()))
            .unwrap();
        match owner {
            Ok(owner) => {
                request.extensions_mut().insert(VerifiedOwner(UserId::parse(owner).unwrap()));
            }
            Err(token) => {
                request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
            }
        }
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        Reply { status, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null) }
    }

    /// The heartbeat of a worker with the given capacity, extended by `more`.
    pub(crate) async fn heartbeat(&self, owner: &str, id: &str, capacity: u32, more: Value) -> Reply {
        let mut body = json!({ "capacity": capacity });
        for (name, value) in more.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        self.send(Ok(owner), "PUT", &format!("/api/workers/{id}"), body).await
    }

    pub(crate) async fn worker(&self, owner: &str, id: &str, capacity: u32) {
        let reply = self.heartbeat(owner, id, capacity, json!({})).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
    }

    /// Receives and deletes the orders on a worker's queue.
    pub(crate) async fn orders(&self, owner: &str, id: &str) -> Vec<Order> {
        let queue = queues::worker(&key(owner, id));
        let mut orders = Vec::new();
        loop {
            let batch = self.broker.receive(&queue, 10, Duration::ZERO).await.unwrap();
            if batch.is_empty() {
                return orders;
            }
            let receipts: Vec<_> = batch.iter().map(|message| message.receipt.clone()).collect();
            orders.extend(batch.iter().map(|message| serde_json::from_str::<Order>(&message.body).unwrap()));
            self.broker.delete(&queue, &receipts).await.unwrap();
        }
    }

    pub(crate) async fn given(&self, owner: &str, id: &str) -> Vec<RunId> {
        let launch = |order| match order {
            Order::Launch { request } => Some(request.run_id),
            Order::Stop { .. } => None,
        };
        self.orders(owner, id).await.into_iter().filter_map(launch).collect()
    }

    pub(crate) async fn claim(&self, owner: &str, id: &str, run: RunId) -> Reply {
        self.send(Ok(owner), "POST", &format!("/api/workers/{id}/claims"), json!({ "runId": run })).await
    }

    pub(crate) async fn outcome(&self, owner: &str, id: &str, run: RunId) -> String {
        let reply = self.claim(owner, id, run).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.body["outcome"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn exit(&self, owner: &str, id: &str, request: &LaunchRequest) -> Reply {
        let body = json!({
            "sessionId": request.session_id,
            "runId": request.run_id,
            "exit": { "code": 0, "drained": true },
        });
        self.send(Ok(owner), "POST", &format!("/api/workers/{id}/exits"), body).await
    }

    /// Receives and counts the runtime's messages on the events queue.
    pub(crate) async fn ends(&self) -> usize {
        let batch = self.broker.receive(&queues::events(), 10, Duration::ZERO).await.unwrap();
        for message in &batch {
            let signed = pilothouse_wire::Signed::parse(&message.body).unwrap();
            let run = signed.unverified().unwrap().claimed_run();
            let envelope = signed.open(&self.secret.runtime_key(run)).unwrap();
            assert!(envelope.body.get().contains("run_exited"), "{}", envelope.body.get());
        }
        let receipts: Vec<_> = batch.iter().map(|message| message.receipt.clone()).collect();
        self.broker.delete(&queues::events(), &receipts).await.unwrap();
        batch.len()
    }
}

pub(crate) fn key(owner: &str, id: &str) -> WorkerKey {
    WorkerKey { owner: UserId::parse(owner).unwrap(), id: id.parse().unwrap() }
}
