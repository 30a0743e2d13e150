//! What goes between the control plane and a worker that stands elsewhere.
//!
//! Every request carries the token of the worker's owner.
//!
//! | request | body | answer |
//! |---|---|---|
//! | `PUT /api/workers/{id}` | [`Heartbeat`] | 200 [`HeartbeatAnswer`] |
//! | `POST /api/workers/{id}/orders` | [`TakeOrders`] | 200 [`TakenOrders`], where there is no SQS |
//! | `POST /api/workers/{id}/claims` | [`ClaimRun`] | 200 [`ClaimAnswer`] |
//! | `POST /api/workers/{id}/exits` | [`ReportExit`] | 204 |
//!
//! A worker registers with its first heartbeat, takes [`Order`]s from its own queue, claims each run before it starts
//! it (ruling 7), and reports how it ended. It needs neither AWS credentials of its own nor the root secret.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use pilothouse_domain::{AgentSessionId, RunId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::launch::{LaunchRequest, RunAccess, RunExit};

/// The name of a worker among those of its owner: 1 to 64 letters, digits, `-`, `_` and `.`, beginning with a letter or
/// digit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WorkerId(String);

/// A text that names no worker.
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

/// What a worker says of itself, again and again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Heartbeat {
    /// What it has, by name: a session asks for `gpu=a100` by its label `worker/gpu`.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// How many runs it takes at once: 1 to 500.
    pub capacity: u32,
    /// Whether it serves everybody. Only for workers of an operator.
    #[serde(default)]
    pub shared: bool,
    /// Whether it is about to end, and wants nothing new.
    #[serde(default)]
    pub draining: bool,
    /// The runs that it has in hand.
    #[serde(default)]
    pub runs: Vec<ReportedRun>,
    /// Whether it has no way to its queue, or one that ends soon.
    #[serde(default)]
    pub needs_access: bool,
}

/// A run that a worker has in hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReportedRun {
    /// The run.
    pub run_id: RunId,
    /// How it stands.
    pub state: RunState,
}

/// How a run stands on its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RunState {
    /// Its process lives, or is about to.
    Alive,
    /// Its process is gone; its end is being drained and reported.
    Over,
}

/// What a heartbeat is answered.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeartbeatAnswer {
    /// Seconds until the next one.
    pub heartbeat_seconds: f64,
    /// The way to the worker's queue, when it asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<OrdersAccess>,
}

/// How a worker reaches its queue.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum OrdersAccess {
    /// By `POST /api/workers/{id}/orders`.
    Http {},
    /// Straight to SQS.
    Sqs(QueueCredentials),
}

/// Short-lived credentials to receive from one queue.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueCredentials {
    /// Identifies the credentials.
    pub access_key_id: String,
    /// Signs with them.
    pub secret_access_key: String,
    /// Goes with every request.
    pub session_token: String,
    /// From then on they open nothing.
    pub expires_at: Timestamp,
    /// The region of the queue.
    pub region: String,
    /// The address of the service, when it is not the region's own: a local cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The queue.
    pub queue_url: String,
}

/// What a worker is told to do. It may be told twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Order {
    /// Run a sidecar, once the run is claimed.
    Launch {
        /// Which.
        request: LaunchRequest,
    },
    /// End a sidecar.
    Stop {
        /// Its session.
        session_id: AgentSessionId,
        /// Its run.
        run_id: RunId,
        /// How firmly.
        mode: StopOrder,
    },
}

/// How firmly to end a sidecar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopOrder {
    /// Ask: it ends its agent and publishes what it has.
    Terminate,
    /// End it and everything that it started, now.
    Kill,
}

/// Waits for orders; removes those that are carried out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TakeOrders {
    /// Receipts of orders that are carried out.
    #[serde(default)]
    pub done: Vec<String>,
    /// Receipts of orders that are to come again.
    #[serde(default)]
    pub again: Vec<String>,
    /// How long to wait for the first, at most 20 seconds.
    #[serde(default)]
    pub wait_seconds: f64,
}

/// What there was; possibly nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TakenOrders {
    /// The orders in order.
    pub orders: Vec<TakenOrder>,
}

/// One order and what removes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TakenOrder {
    /// What removes it.
    pub receipt: String,
    /// The JSON of an [`Order`].
    pub body: String,
}

/// Asks for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClaimRun {
    /// Which.
    pub run_id: RunId,
}

/// Whether the run is the worker's to start.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum ClaimAnswer {
    /// It is, with these keys.
    Claimed {
        /// What it is let in with.
        access: Box<RunAccess>,
    },
    /// Another worker starts it.
    HeldByOther {},
    /// It has ended, or is not its session's current run any more.
    RunIsOver {},
}

/// Reports that a run's process is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReportExit {
    /// The session.
    pub session_id: AgentSessionId,
    /// The run.
    pub run_id: RunId,
    /// How it ended.
    pub exit: RunExit,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_fit_for_paths_and_queues() {
        for good in ["a", "mac-mini.local", "GPU_1", &"x".repeat(64)] {
            assert!(good.parse::<WorkerId>().is_ok(), "{good}");
        }
        for bad in ["", "-a", ".", "a/b", "ä", "a b", &"x".repeat(65)] {
            assert!(bad.parse::<WorkerId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn answers_say_which_they_are() {
        let over = serde_json::to_value(ClaimAnswer::RunIsOver {}).unwrap();
        assert_eq!(over, serde_json::json!({ "outcome": "run_is_over" }));
        let http = serde_json::to_value(OrdersAccess::Http {}).unwrap();
        assert_eq!(http, serde_json::json!({ "kind": "http" }));
    }
}
