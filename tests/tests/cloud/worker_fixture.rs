//! An owner with a worker, and a session whose run the worker has claimed. The test acts as worker and sidecar with only the credentials
//! that the control plane gave them.

use std::time::Instant;

use pilothouse_domain::{AgentSessionId, EnvelopeId, RunId, Timestamp};
use pilothouse_wire::envelope::{PROTOCOL_VERSION, Signer};
use pilothouse_wire::gateway::RunCredentials;
use pilothouse_wire::launch::{BrokerAccess, LaunchRequest, RunAccess};
use pilothouse_wire::worker::{ClaimResponse, HeartbeatResponse, Order, OrdersAccess, QueueCredentials};
use pilothouse_wire::{Envelope, GatewayToken, RawEvent, Signed};
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::caller::{Caller, Request};
use crate::deployment::{Deployment, PATIENCE};

/// The id of each owner's worker.
const WORKER: &str = "trial";

pub(crate) struct WorkerFixture<'a> {
    to: &'a Deployment,
    token: String,
    pub(crate) session: AgentSessionId,
    pub(crate) run: RunId,
    pub(crate) access: RunAccess,
    pub(crate) orders: QueueCredentials,
}

impl<'a> WorkerFixture<'a> {
    /// Registers a worker, starts a session, and claims its run.
    pub(crate) async fn start(to: &'a Deployment) -> Self {
        let token = to.token(&format!("trial-{}", Uuid::now_v7().simple()));
        let worker = format!("/api/workers/{WORKER}");
        let beat = json!({ "capacity": 1, "needsAccess": true });
        let (status, response) = to.api(Method::PUT, &worker, &token, &beat).await;
        assert_eq!(status, 200, "{response}");
        let response: HeartbeatResponse = serde_json::from_value(response).unwrap();
        let Some(OrdersAccess::Sqs(orders)) = response.access else {
            panic!("no access to the queue of orders")
        };

        let work = json!({ "workingDirectory": "/tmp", "objective": "Stay apart", "budgetCapUsd": "1" });
        let (status, started) = to.api(Method::POST, "/api/agents/sessions", &token, &work).await;
        assert!(matches!(status, 201 | 202), "{status} {started}");
        let session = started["session"]["id"].as_str().unwrap().parse().unwrap();

        let request = launch_of(to, &orders, session).await;
        let claim = json!({ "runId": request.run_id });
        let (status, response) = to.api(Method::POST, &format!("{worker}/claims"), &token, &claim).await;
        assert_eq!(status, 200, "{response}");
        let ClaimResponse::Claimed { access } = serde_json::from_value(response).unwrap() else {
            panic!("the run was not claimed");
        };
        Self { to, token, session, run: request.run_id, access: *access, orders }
    }

    pub(crate) fn gateway_token(&self) -> &GatewayToken {
        let BrokerAccess::Sqs { token, .. } = &self.access.broker else { panic!("sidecars use SQS here") };
        token
    }

    /// As the run's sidecar fetches them.
    pub(crate) async fn credentials(&self) -> RunCredentials {
        let (status, response) = self.gateway("credentials", self.gateway_token().as_str()).await;
        assert_eq!(status, 200, "{response}");
        serde_json::from_value(response).unwrap()
    }

    /// Sends a request to the gateway with any token.
    pub(crate) async fn gateway(&self, what: &str, token: &str) -> (u16, Value) {
        self.to.api(Method::POST, &format!("/internal/gateway/{what}"), token, &Value::Null).await
    }

    /// A caller with the credentials of the run.
    pub(crate) async fn sidecar(&self) -> Caller {
        self.to.with_credentials(&self.credentials().await)
    }

    /// A caller with the credentials of the worker.
    pub(crate) fn worker(&self) -> Caller {
        with_orders(self.to, &self.orders)
    }

    pub(crate) fn orders_queue(&self) -> &str {
        self.orders.queue_url.rsplit('/').next().unwrap()
    }

    pub(crate) fn commands_queue(&self) -> String {
        self.to.queue(&format!("commands-{}.fifo", self.run))
    }

    /// Sends a request of the worker with a token of its owner.
    pub(crate) async fn as_worker(&self, rest: &str, body: &Value) -> (u16, Value) {
        self.to.api(Method::POST, &format!("/api/workers/{WORKER}{rest}"), &self.token, body).await
    }

    /// Reports the exit of the run's process.
    pub(crate) async fn report_exit(&self) {
        let exit = json!({ "code": 0, "drained": true });
        let body = json!({ "sessionId": self.session, "runId": self.run, "exit": exit });
        let (status, response) = self.as_worker("/exits", &body).await;
        assert_eq!(status, 204, "{response}");
    }

    /// Ends the session and removes the worker, so that no deadlines remain.
    pub(crate) async fn leave(&self) {
        let cancel = format!("/api/agents/sessions/{}/cancel", self.session);
        let (status, response) = self.to.api(Method::POST, &cancel, &self.token, &json!({})).await;
        assert!(status < 300, "{status} {response}");
        self.report_exit().await;
        let worker = format!("/api/workers/{WORKER}");
        let (status, response) = self.to.api(Method::DELETE, &worker, &self.token, &Value::Null).await;
        assert!(status < 300, "{status} {response}");
    }

    /// The session as its owner sees it.
    pub(crate) async fn view(&self) -> Value {
        let path = format!("/api/agents/sessions/{}", self.session);
        let (status, view) = self.to.api(Method::GET, &path, &self.token, &Value::Null).await;
        assert_eq!(status, 200, "{view}");
        view
    }

    pub(crate) async fn activity(&self) -> String {
        let path = format!("/api/agents/sessions/{}/activity?limit=200", self.session);
        let (status, page) = self.to.api(Method::GET, &path, &self.token, &Value::Null).await;
        assert_eq!(status, 200, "{page}");
        page["items"].to_string()
    }

    /// Waits until the activity contains `text`.
    pub(crate) async fn until_recorded(&self, text: &str) -> String {
        until(&format!("`{text}` is recorded"), async || {
            let activity = self.activity().await;
            activity.contains(text).then_some(activity)
        })
        .await
    }

    /// An event of the run, signed with its key.
    pub(crate) fn event(&self, sequence: u64, body: RawEvent) -> String {
        self.signed(self.session, self.run, Some(sequence), body, Signer::Sidecar)
    }

    pub(crate) fn signed(
        &self,
        session_id: AgentSessionId,
        run_id: RunId,
        sequence: Option<u64>,
        body: RawEvent,
        signer: Signer,
    ) -> String {
        let envelope = Envelope {
            protocol_version: PROTOCOL_VERSION,
            session_id,
            run_id,
            message_id: EnvelopeId::new(Uuid::now_v7()),
            sequence,
            time: Timestamp::from_millis(0),
            occurred_at: None,
            traceparent: None,
            body,
        };
        let sealed = Signed::seal(&envelope, &self.access.key_id, signer, &self.access.envelope_key).unwrap();
        serde_json::to_string(&sealed).unwrap()
    }
}

/// A message to the events queue in the group of a session.
pub(crate) fn publication(to: &Deployment, group: AgentSessionId, body: &str) -> Request {
    let more = json!({
        "MessageGroupId": group.to_string(),
        "MessageDeduplicationId": Uuid::now_v7().to_string(),
        "MessageBody": body,
    });
    to.sqs("SendMessage", &to.queue("events.fifo"), more)
}

/// Appears in the activity stream.
pub(crate) fn notice(text: &str) -> RawEvent {
    RawEvent::Notice { name: "trial".to_owned(), summary: text.to_owned(), detail: None }
}

/// The first event of a run.
pub(crate) fn ready() -> RawEvent {
    RawEvent::SidecarReady {
        sidecar_version: "0".to_owned(),
        adapter: "script".to_owned(),
        capabilities: pilothouse_domain::value::Capabilities::default(),
    }
}

/// The messages that can be received from a queue within a second.
pub(crate) async fn received(to: &Deployment, caller: &Caller, queue: &str) -> Vec<String> {
    let more = json!({ "MaxNumberOfMessages": 10, "WaitTimeSeconds": 1 });
    let response = caller.send(&to.sqs("ReceiveMessage", queue, more)).await.done();
    let messages = response["Messages"].as_array().into_iter().flatten();
    messages.map(|message| message["Body"].as_str().unwrap().to_owned()).collect()
}

/// Polls `look` until it returns a value.
pub(crate) async fn until<T>(what: &str, look: impl AsyncFn() -> Option<T>) -> T {
    let give_up = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < give_up, "timed out after {PATIENCE:?}: {what}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

fn with_orders(to: &Deployment, orders: &QueueCredentials) -> Caller {
    let QueueCredentials { access_key_id, secret_access_key, session_token, .. } = orders;
    Caller::new(&to.http, &to.region, access_key_id, secret_access_key, Some(session_token))
}

/// From the queue of the worker, with its credentials.
async fn launch_of(to: &Deployment, orders: &QueueCredentials, session: AgentSessionId) -> LaunchRequest {
    let (worker, queue) = (with_orders(to, orders), orders.queue_url.rsplit('/').next().unwrap());
    until("an order to launch", async || {
        let orders = received(to, &worker, queue).await;
        orders.iter().find_map(|order| match serde_json::from_str(order).unwrap() {
            Order::Launch { request } if request.session_id == session => Some(request),
            _ => None,
        })
    })
    .await
}
