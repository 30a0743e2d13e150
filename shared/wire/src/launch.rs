//! Launching sidecars: requests, launch parameters, and reports of their end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use pilothouse_domain::project_agent::{SecretRef, WorkspaceRequirements};
use pilothouse_domain::value::ProjectMembership;
use pilothouse_domain::{AgentSessionId, Deadlines, RunId, Usd};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::keys::{EnvelopeKey, GatewayToken, RootSecret};

/// Prefix of the variables that configure servers, workers and sidecars. Agents do not inherit them.
pub const RESERVED_PREFIX: &str = "PILOTHOUSE_";

/// A request to run a sidecar. It contains no secret: the worker derives or fetches those.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LaunchRequest {
    /// The session of the run.
    pub session_id: AgentSessionId,
    /// Id of the run.
    pub run_id: RunId,
    /// Number of the run within its session, from 1.
    pub ordinal: u32,
    /// Number of retries of the session, from which the agent's API key is derived (decision 8).
    #[serde(default)]
    pub retry_count: u32,
    /// Adapter that drives the agent.
    pub adapter: String,
    /// Absolute path of the directory where the agent runs.
    pub working_directory: String,
    /// Labels that the worker must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub worker_labels: BTreeMap<String, String>,
    /// Lease of the run in milliseconds, fixed at launch (decision 13): its agent is stopped this long after the last accepted
    /// publish. Absent if the run has no lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// Whether the sidecar asks the control plane before each tool call (decision 75).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub authorize_tools: bool,
    /// The agent of a project that the session belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<ProjectMembership>,
    /// The secrets that the agent needs, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretRef>,
    /// Requirements on the workspace of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Box<WorkspaceRequirements>>,
}

impl LaunchRequest {
    /// The lease of the run.
    pub fn lease(&self) -> Option<Duration> {
        self.lease_ms.map(Duration::from_millis)
    }
}

/// Launch parameters that the sidecar reads from a file in its run directory. Only its user can read the file.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SidecarLaunch {
    /// The request to run the sidecar.
    #[serde(flatten)]
    pub request: LaunchRequest,
    /// Key for signing the envelopes of this run.
    pub envelope_key: EnvelopeKey,
    /// Id of the root secret from which the key was derived.
    pub key_id: String,
    /// Access to the broker.
    pub broker: BrokerAccess,
    /// Folder of the session that outlives its runs. Adapters keep conversations there.
    pub session_home: String,
    /// Access to the agent API, for the agent.
    pub agent_api: AgentApiAccess,
    /// Seconds between two heartbeats.
    pub heartbeat_seconds: f64,
    /// Limits for the agent while the control plane is unreachable.
    #[serde(default)]
    pub offline: OfflineLimits,
    /// Confinement of the agent's programs by the kernel; `None` leaves them the rights of their user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confinement: Option<LaunchConfinement>,
    /// Absolute paths that the kernel hides from the agent's programs, if it can; no other file is hidden. For sidecars in
    /// containers, which isolate the agent from everything but the folders of its run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden_where_supported: Vec<PathBuf>,
}

/// Confines the agent's programs: they cannot read the listed paths, and can write only to the working directory, folders of the
/// session and caches. A sidecar that cannot enforce this starts no agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchConfinement {
    /// Absolute paths of files and folders: the worker's data and the credentials of the command line.
    pub hidden: Vec<PathBuf>,
}

/// Keys and addresses of a run, for the worker that may start it.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunAccess {
    /// Key for signing the envelopes of the run.
    #[schemars(with = "String")]
    pub envelope_key: EnvelopeKey,
    /// Id of the root secret from which the key was derived.
    pub key_id: String,
    /// Access to the broker, for the sidecar.
    pub broker: BrokerAccess,
    /// Access to the agent API, for the agent.
    pub agent_api: AgentApiAccess,
    /// Seconds between two heartbeats.
    pub heartbeat_seconds: f64,
    /// Limits for the agent while the control plane is unreachable.
    #[serde(default)]
    pub offline: OfflineLimits,
}

/// Limits for an agent while the control plane is unreachable (decision 13).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OfflineLimits {
    /// Most that a run without a cap may spend while offline. A run with a cap may spend the rest of it.
    pub allowance_usd: Usd,
    /// Seconds after which an agent is paused if its spend cannot be priced.
    pub unpriced_seconds: f64,
}

impl Default for OfflineLimits {
    /// Five dollars, one minute.
    fn default() -> Self {
        Self { allowance_usd: Usd::whole(5), unpriced_seconds: 60.0 }
    }
}

/// Addresses and times of the control plane, from which the access of each run is derived.
#[derive(Debug, Clone)]
pub struct RunAccessIssuer {
    /// Base URL of the control plane.
    pub url: String,
    /// Whether sidecars access SQS and S3 directly instead of through the gateway.
    pub sqs: bool,
    /// Time between two heartbeats of a sidecar (decision 13).
    pub heartbeat: Duration,
    /// Limits for agents while the control plane is unreachable.
    pub offline: OfflineLimits,
}

impl RunAccessIssuer {
    /// Access through a server on this machine, with the times of decision 13.
    pub fn via_gateway(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            sqs: false,
            heartbeat: Deadlines::HEARTBEAT,
            offline: OfflineLimits::default(),
        }
    }

    /// Divides all times by `divisor`, for tests that wait for real deadlines.
    #[must_use]
    pub fn shortened(mut self, divisor: u32) -> Self {
        self.heartbeat /= divisor.max(1);
        self.offline.unpriced_seconds /= f64::from(divisor.max(1));
        self
    }

    /// Derives the access of a run (decision 8).
    pub fn issue(&self, secret: &RootSecret, request: &LaunchRequest) -> RunAccess {
        let (session, run) = (request.session_id, request.run_id);
        let (url, token) = (self.url.clone(), secret.gateway_token(session, run));
        let broker = if self.sqs {
            BrokerAccess::Sqs { url, token }
        } else {
            BrokerAccess::Gateway { url, token, http2: true }
        };
        RunAccess {
            envelope_key: secret.envelope_key(run),
            key_id: secret.id().to_owned(),
            broker,
            agent_api: AgentApiAccess {
                url: self.url.clone(),
                api_key: secret.api_key(session, request.retry_count),
            },
            heartbeat_seconds: self.heartbeat.as_secs_f64(),
            offline: self.offline,
        }
    }
}

impl RunAccess {
    /// The launch parameters of the run's sidecar.
    pub fn launch(self, request: LaunchRequest, session_home: String) -> SidecarLaunch {
        let Self { envelope_key, key_id, broker, agent_api, heartbeat_seconds, offline } = self;
        SidecarLaunch {
            request,
            envelope_key,
            key_id,
            broker,
            session_home,
            agent_api,
            heartbeat_seconds,
            offline,
            confinement: None,
            hidden_where_supported: Vec::new(),
        }
    }
}

/// How a sidecar accesses the broker.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum BrokerAccess {
    /// Through the gateway of an embedded server.
    Gateway {
        /// Base URL, like `http://127.0.0.1:…`.
        url: String,
        /// Token for the queues of this run.
        #[schemars(with = "String")]
        token: GatewayToken,
        /// Whether the server is known to support HTTP/2 without TLS. Then all requests of a sidecar share one connection.
        #[serde(default)]
        http2: bool,
    },
    /// Directly through SQS and S3, with short-lived credentials for the queues of this run.
    Sqs {
        /// Base URL of the control plane, which issues and renews the credentials.
        url: String,
        /// Token that authenticates the run.
        #[schemars(with = "String")]
        token: GatewayToken,
    },
}

impl BrokerAccess {
    /// Base URL of the control plane.
    pub fn url(&self) -> &str {
        match self {
            Self::Gateway { url, .. } | Self::Sqs { url, .. } => url,
        }
    }

    /// The token that authenticates the run to the control plane. Agents do not have it.
    pub const fn token(&self) -> &GatewayToken {
        match self {
            Self::Gateway { token, .. } | Self::Sqs { token, .. } => token,
        }
    }
}

/// How the agent accesses the agent API (S0 8.9).
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentApiAccess {
    /// Base URL of the API.
    pub url: String,
    /// API key of the session.
    pub api_key: String,
}

/// How the process of a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunExit {
    /// Exit code; absent if a signal ended the process or the code is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Signal that ended the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Whether everything in the spool was sent before this report.
    pub drained: bool,
    /// Explanation for a person: why it could not start, or its last output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}
