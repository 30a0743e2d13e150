//! What a runtime gives a sidecar to start with, and how it tells that a run is over.

use std::collections::BTreeMap;
use std::time::Duration;

use pilothouse_domain::{AgentSessionId, RunId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::keys::{EnvelopeKey, GatewayToken, RootSecret};

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

/// What a run is let in with: its keys, and where to use them. Whoever may start the run is given this.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunAccess {
    /// Signs every envelope of the run.
    #[schemars(with = "String")]
    pub envelope_key: EnvelopeKey,
    /// The id of the root secret that the key was derived from.
    pub key_id: String,
    /// How its sidecar reaches the broker.
    pub broker: BrokerAccess,
    /// The key that its agent uses on the agent API, and where that is.
    pub agent_api: AgentApiAccess,
    /// Seconds between two heartbeats.
    pub heartbeat_seconds: f64,
    /// Seconds without a successful publication after which the sidecar stops its agent (ruling 13).
    pub isolation_seconds: f64,
}

/// Where runs are let in, and how often they are to be heard.
#[derive(Debug, Clone)]
pub struct Entrance {
    /// Base address of the control plane.
    pub url: String,
    /// Whether sidecars go straight to SQS and S3; otherwise through the gateway.
    pub sqs: bool,
    /// Time between two heartbeats of a sidecar (ruling 13).
    pub heartbeat: Duration,
    /// Time without a successful publication after which a sidecar stops its agent (ruling 13).
    pub isolation: Duration,
}

impl Entrance {
    /// The entrance of a server of this machine, with the times of ruling 13.
    pub fn gateway(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            sqs: false,
            heartbeat: Duration::from_secs(15),
            isolation: Duration::from_mins(1),
        }
    }

    /// Derives what a run is let in with (ruling 8).
    pub fn admit(&self, secret: &RootSecret, request: &LaunchRequest) -> RunAccess {
        let (session, run) = (request.session_id, request.run_id);
        let (url, token) = (self.url.clone(), secret.gateway_token(session, run));
        let broker =
            if self.sqs { BrokerAccess::Sqs { url, token } } else { BrokerAccess::Gateway { url, token } };
        RunAccess {
            envelope_key: secret.envelope_key(run),
            key_id: secret.id().to_owned(),
            broker,
            agent_api: AgentApiAccess {
                url: self.url.clone(),
                api_key: secret.api_key(session, request.retry_count),
            },
            heartbeat_seconds: self.heartbeat.as_secs_f64(),
            isolation_seconds: self.isolation.as_secs_f64(),
        }
    }
}

impl RunAccess {
    /// What the sidecar of the run reads at start.
    pub fn launch(self, request: LaunchRequest, session_home: String) -> SidecarLaunch {
        let Self { envelope_key, key_id, broker, agent_api, heartbeat_seconds, isolation_seconds } = self;
        SidecarLaunch {
            request,
            envelope_key,
            key_id,
            broker,
            session_home,
            agent_api,
            heartbeat_seconds,
            isolation_seconds,
        }
    }
}

/// How a sidecar reaches the broker.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum BrokerAccess {
    /// Through the gateway of an embedded server.
    Gateway {
        /// `http://127.0.0.1:…`
        url: String,
        /// Opens the queues of this run alone.
        #[schemars(with = "String")]
        token: GatewayToken,
    },
    /// Straight to SQS and S3, with short-lived credentials for the queues of this run alone.
    Sqs {
        /// Base address of the control plane, where the credentials are fetched and renewed.
        url: String,
        /// Proves which run asks for them.
        #[schemars(with = "String")]
        token: GatewayToken,
    },
}

/// How the agent reaches its API (S0 8.9).
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
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
