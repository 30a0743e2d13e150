//! The control plane on its embedded engines, as far as workers need it, reached through its router.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, to_bytes};
use http::Request;
use pilothouse_broker::Broker as _;
use pilothouse_broker::embedded::EmbeddedBroker;
use pilothouse_domain::{AgentSessionId, RunId, Timestamp, UserId};
use pilothouse_functions::app::{Fleet, FreshIds};
use pilothouse_functions::edge::auth::VerifiedOwner;
use pilothouse_functions::workers::{CloudRuntime, Dispatch};
use pilothouse_functions::{App, Parts, catalogue, queues};
use pilothouse_runtime::{CredentialVendor, VendError};
use pilothouse_stage::{Ground, TestClock, keep, new_session, with_run};
use pilothouse_store::WorkerKey;
use pilothouse_wire::RootSecret;
use pilothouse_wire::gateway::RunCredentials;
use pilothouse_wire::launch::{Entrance, LaunchRequest};
use pilothouse_wire::worker::{Order, QueueCredentials};
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// Credentials that say what they are for.
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

    async fn for_leftovers(&self, session: AgentSessionId, run: RunId) -> Result<RunCredentials, VendError> {
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

/// The control plane of a deployment whose operator is `operator`.
pub(crate) struct Stage {
    pub(crate) app: App,
    pub(crate) runtime: CloudRuntime,
    pub(crate) broker: EmbeddedBroker,
    pub(crate) secret: RootSecret,
    router: Router,
    clock: TestClock,
    _ground: Ground,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::with(None).await
    }

    /// In the cloud, where credentials are handed out.
    pub(crate) async fn in_the_cloud() -> Self {
        Self::with(Some(Arc::new(Vendor))).await
    }

    async fn with(vendor: Option<Arc<dyn CredentialVendor>>) -> Self {
        let clock = TestClock::system();
        let ground = Ground::open(clock.shown()).await;
        let (broker, parts) = (ground.broker.clone(), ground.parts());
        let secret = parts.secret.clone();
        let dispatch = Dispatch::new(
            parts.store.clone(),
            Arc::new(broker.clone()),
            secret.clone(),
            &parts.deadlines,
            clock.shown(),
        );
        let runtime = CloudRuntime::new(dispatch);
        let entrance = Entrance { sqs: vendor.is_some(), ..Entrance::gateway("http://control.plane") };
        let operators = [UserId::parse("operator").unwrap()].into();
        let app = App::new(Parts {
            runtime: Arc::new(runtime.clone()),
            fleet: Some(Fleet { entrance, vendor, operators }),
            ..parts
        });
        let functions = catalogue::http_functions();
        let router = catalogue::router_of(app.clone(), &functions);
        Self { app, runtime, broker, secret, router, clock, _ground: ground }
    }

    /// Lets time pass.
    pub(crate) fn pass(&self, time: Duration) {
        self.clock.pass(time);
    }

    /// A new session of `owner` with its first run.
    pub(crate) async fn session(&self, owner: &str) -> LaunchRequest {
        let new = new_session(&UserId::parse(owner).unwrap(), "5");
        let (id, run) = with_run(&self.app, new).await;
        LaunchRequest {
            session_id: id,
            run_id: run,
            ordinal: 1,
            retry_count: 0,
            adapter: "script".into(),
            working_directory: "/tmp".into(),
            worker_labels: BTreeMap::new(),
        }
    }

    /// Ends the run of a session, as its exit does.
    pub(crate) async fn end(&self, request: &LaunchRequest) {
        let mut loaded = self.app.store.conversation(request.session_id).await.unwrap().unwrap();
        let mut ids = FreshIds;
        let mut cx = self.app.occasion(&mut ids);
        let events = loaded.conversation.run_ended(request.run_id, true, None, &mut cx).unwrap();
        keep(&self.app, loaded, events).await;
    }

    /// A new session of `owner` whose run is launched.
    pub(crate) async fn launched(&self, owner: &str, labels: &[(&str, &str)]) -> LaunchRequest {
        let mut request = self.session(owner).await;
        request.worker_labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        self.app.runtime.launch(request.clone()).await.unwrap();
        request
    }

    /// A request of `owner`, or of whoever `token` says.
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

    /// A heartbeat of a worker with room for `capacity`, and what else it says.
    pub(crate) async fn beat(&self, owner: &str, id: &str, capacity: u32, more: Value) -> Reply {
        let mut body = json!({ "capacity": capacity });
        for (name, value) in more.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        self.send(Ok(owner), "PUT", &format!("/api/workers/{id}"), body).await
    }

    /// A worker that registers.
    pub(crate) async fn worker(&self, owner: &str, id: &str, capacity: u32) {
        let reply = self.beat(owner, id, capacity, json!({})).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
    }

    /// The orders on a worker's queue, which it takes and carries out.
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

    /// The runs that a worker is told to launch.
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

    /// The outcome of a claim that is answered.
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

    /// How many messages of the runtime are on the events queue, which are taken.
    pub(crate) async fn ends(&self) -> usize {
        let batch = self.broker.receive(&queues::events(), 10, Duration::ZERO).await.unwrap();
        for message in &batch {
            let signed = pilothouse_wire::Signed::parse(&message.body).unwrap();
            let run = signed.claimed().unwrap().run_id;
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
