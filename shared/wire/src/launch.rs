//! What a runtime gives a sidecar to start with, and how it tells that a run is over.

use std::collections::BTreeMap;

use pilothouse_domain::{AgentSessionId, RunId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::keys::{EnvelopeKey, GatewayToken};

/// A request to run a sidecar. It carries no secret: the worker derives or fetches those.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LaunchRequest {
    /// The session.
    pub session_id: AgentSessionId,
    /// The run.
    pub run_id: RunId,
    /// Counts the runs of the session from 1.
    pub ordinal: u32,
    /// How often the session was retried: the agent's API key is derived with it (ruling 8).
    #[serde(default)]
    pub retry_count: u32,
    /// The adapter that the sidecar drives the agent with.
    pub adapter: String,
    /// Where the agent runs.
    pub working_directory: String,
    /// What the worker that runs it must have: its labels, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub worker_labels: BTreeMap<String, String>,
}

/// What the sidecar reads at start, from a file in its run directory that only its user can read.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SidecarLaunch {
    /// What was asked for.
    #[serde(flatten)]
    pub request: LaunchRequest,
    /// Signs every envelope of this run.
    pub envelope_key: EnvelopeKey,
    /// The id of the root secret that the key was derived from.
    pub key_id: String,
    /// How it reaches the broker.
    pub broker: BrokerAccess,
    /// The session's folder that outlives its runs: where adapters keep conversations.
    pub session_home: String,
    /// The key that the agent uses on the agent API, and where that is.
    pub agent_api: AgentApiAccess,
    /// Seconds between two heartbeats.
    pub heartbeat_seconds: f64,
    /// Seconds without a successful publication after which the sidecar stops its agent (ruling 13).
    pub isolation_seconds: f64,
}

/// How a sidecar reaches the broker.
#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum BrokerAccess {
    /// Through the gateway of an embedded server.
    Gateway {
        /// `http://127.0.0.1:…`
        url: String,
        /// Opens the queues of this run alone.
        token: GatewayToken,
    },
    /// Straight to SQS and S3, with short-lived credentials for the queues of this run alone.
    Sqs {
        /// Base address of the control plane, where the credentials are fetched and renewed.
        url: String,
        /// Proves which run asks for them.
        token: GatewayToken,
    },
}

/// How the agent reaches its API (S0 8.9).
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentApiAccess {
    /// Base address.
    pub url: String,
    /// The session's API key.
    pub api_key: String,
}

/// How a run's process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunExit {
    /// The exit code, unless a signal ended it or nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Whether everything in its spool was sent before this.
    pub drained: bool,
    /// A sentence for a person: why it could not start, what its last words were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}
