//! HTTP interface between the control plane and a worker on another machine.
//!
//! Every request has the token of the worker's owner.
//!
//! | request | body | response |
//! |---|---|---|
//! | `PUT /api/workers/{id}` | [`Heartbeat`] | 200 [`HeartbeatResponse`] |
//! | `POST /api/workers/{id}/orders` | [`TakeOrders`] | 200 [`TakenOrders`], if there is no SQS |
//! | `POST /api/workers/{id}/claims` | [`ClaimRun`] | 200 [`ClaimResponse`] |
//! | `POST /api/workers/{id}/exits` | [`ReportExit`] | 204 |
//!
//! A worker registers with its first heartbeat, receives [`Order`]s from its own queue, claims each run before it starts it
//! (decision 7), and reports how the run ended. It needs neither AWS credentials nor the root secret.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use pilothouse_domain::project_agent::WorkspaceOffer;
use pilothouse_domain::{AgentSessionId, RunId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::launch::{LaunchRequest, RunAccess, RunExit};

/// Name of a worker, unique for its owner: 1 to 64 letters, digits, `-`, `_` and `.`, beginning with a letter or digit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WorkerId(String);

/// A string that is not the name of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a worker's id has 1 to 64 letters, digits, `-`, `_` and `.`, and begins with a letter or digit")]
pub struct InvalidWorkerId;

impl WorkerId {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for WorkerId {
    type Err = InvalidWorkerId;

    fn from_str(text: &str) -> Result<Self, InvalidWorkerId> {
        let fits = text.len() <= 64
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
        if fits { Ok(Self(text.to_owned())) } else { Err(InvalidWorkerId) }
    }
}

impl TryFrom<String> for WorkerId {
    type Error = InvalidWorkerId;
    fn try_from(text: String) -> Result<Self, InvalidWorkerId> {
        text.parse()
    }
}

impl From<WorkerId> for String {
    fn from(id: WorkerId) -> Self {
        id.0
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl JsonSchema for WorkerId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "WorkerId".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" })
    }
}

/// Periodic report of a worker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Heartbeat {
    /// Labels of the worker. A session requests `gpu=a100` with its label `worker/gpu`.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// What the worker offers to agents.
    #[serde(default)]
    pub workspace: WorkspaceOffer,
    /// Most concurrent runs: 1 to 500.
    pub capacity: u32,
    /// Whether the worker serves all owners. Only for workers of an operator.
    #[serde(default)]
    pub shared: bool,
    /// Whether the worker is shutting down and accepts no new runs.
    #[serde(default)]
    pub draining: bool,
    /// Runs on the worker.
    #[serde(default)]
    pub runs: Vec<ReportedRun>,
    /// Whether the worker needs access to its queue, because it has none or it expires soon.
    #[serde(default)]
    pub needs_access: bool,
}

/// A run on a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReportedRun {
    /// Id of the run.
    pub run_id: RunId,
    /// State of the run.
    pub state: RunState,
}

/// State of a run on its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RunState {
    /// The process is alive or about to start.
    Alive,
    /// The process ended; its spool is being published and its end reported.
    Over,
}

/// Response to a heartbeat.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeartbeatResponse {
    /// Seconds until the next heartbeat.
    pub heartbeat_seconds: f64,
    /// Access to the worker's queue, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<OrdersAccess>,
    /// Runs of the worker that were declared lost. It ends those that still run before it claims others (decision 13).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost_runs: Vec<RunId>,
}

/// How a worker accesses its queue.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum OrdersAccess {
    /// With `POST /api/workers/{id}/orders`.
    Http {},
    /// Directly through SQS.
    Sqs(QueueCredentials),
}

/// Short-lived AWS credentials to receive from one queue.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueCredentials {
    /// AWS access key id.
    pub access_key_id: String,
    /// AWS secret access key.
    pub secret_access_key: String,
    /// AWS session token.
    pub session_token: String,
    /// When the credentials expire.
    pub expires_at: Timestamp,
    /// Region of the queue.
    pub region: String,
    /// Endpoint of the service, if it is not the region's own (local cloud).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// URL of the queue.
    pub queue_url: String,
}

/// An order to a worker. It may be delivered twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Order {
    /// Run a sidecar, after claiming its run.
    Launch {
        /// The launch request.
        request: LaunchRequest,
    },
    /// Stop a sidecar.
    Stop {
        /// The session of the run.
        session_id: AgentSessionId,
        /// The run to stop.
        run_id: RunId,
        /// How to stop it.
        mode: StopOrder,
    },
}

/// How to stop a sidecar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopOrder {
    /// Ask the sidecar to end its agent and to publish its spool.
    Terminate,
    /// Kill the sidecar and everything that it started.
    Kill,
}

/// Receives orders, and deletes those that were carried out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TakeOrders {
    /// Receipts of orders that were carried out.
    #[serde(default)]
    pub done: Vec<String>,
    /// Receipts of orders that have to be delivered again.
    #[serde(default)]
    pub again: Vec<String>,
    /// Seconds to wait for the first order, at most 20.
    #[serde(default)]
    pub wait_seconds: f64,
}

/// Received orders; may be empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TakenOrders {
    /// The orders, in order.
    pub orders: Vec<TakenOrder>,
}

/// A received order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TakenOrder {
    /// Receipt for deleting the order.
    pub receipt: String,
    /// JSON of an [`Order`].
    pub body: String,
}

/// Claims a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClaimRun {
    /// Run to claim.
    pub run_id: RunId,
}

/// Response to a claim.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum ClaimResponse {
    /// The worker may start the run, with these keys.
    Claimed {
        /// Keys and addresses of the run.
        access: Box<RunAccess>,
    },
    /// Another worker has claimed the run.
    HeldByOther {},
    /// The run ended, or is no longer the session's current run.
    RunIsOver {},
}

/// Reports that the process of a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReportExit {
    /// The session of the run.
    pub session_id: AgentSessionId,
    /// The run that ended.
    pub run_id: RunId,
    /// How it ended.
    pub exit: RunExit,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_id_is_fit_for_paths_and_queues() {
        for good in ["a", "mac-mini.local", "GPU_1", &"x".repeat(64)] {
            assert!(good.parse::<WorkerId>().is_ok(), "{good}");
        }
        for bad in ["", "-a", ".", "a/b", "ä", "a b", &"x".repeat(65)] {
            assert!(bad.parse::<WorkerId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn responses_name_their_kind() {
        let over = serde_json::to_value(ClaimResponse::RunIsOver {}).unwrap();
        assert_eq!(over, serde_json::json!({ "outcome": "run_is_over" }));
        let http = serde_json::to_value(OrdersAccess::Http {}).unwrap();
        assert_eq!(http, serde_json::json!({ "kind": "http" }));
    }
}
