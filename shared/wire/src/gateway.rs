//! How a sidecar reaches the queues of an embedded server: three requests over HTTP, in the shape of SQS.
//!
//! Every request carries `authorization: Bearer {GatewayToken}`; the token names the run, so a request cannot
//! name another.
//!
//! | request | body | answer |
//! |---|---|---|
//! | `POST /internal/gateway/events` | [`SendEvents`] | 200 [`SendResult`] |
//! | `POST /internal/gateway/commands/receive` | [`ReceiveCommands`] | 200 [`ReceivedCommands`] |
//! | `POST /internal/gateway/commands/delete` | [`DeleteCommands`] | 204 |
//! | `PUT /internal/gateway/blobs/{sha256}` | the bytes | 204 |
//! | `POST /internal/gateway/credentials` | | 200 [`RunCredentials`]: how to go past the gateway, in the cloud |
//! | `POST /internal/gateway/launch` | | 200 [`SidecarLaunch`](crate::launch::SidecarLaunch), for a container that knows only its token |
//!
//! Credentials with `?leftovers=true` open no more than the way out, for what a dead sidecar left in its spool; they are
//! granted for an hour after the run's end too.
//!
//! 401: the token is not valid, for good. 410: the run is over; the sidecar ends. 503 and network errors: try
//! again.

use pilothouse_domain::Timestamp;
use serde::{Deserialize, Serialize};

/// Puts events on the events queue: at most 10, in order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendEvents {
    /// The signed envelopes.
    pub entries: Vec<SendEntry>,
}

/// One event.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendEntry {
    /// `{messageId}:{attempt}` (ruling 10).
    pub deduplication_id: String,
    /// The JSON of a signed envelope.
    pub body: String,
}

/// Which entries the broker has. Those not listed are to be sent again.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendResult {
    /// Positions in the request.
    pub accepted: Vec<usize>,
}

/// Waits for commands of this run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReceiveCommands {
    /// At most this many, 1 to 10.
    pub max: usize,
    /// How long to wait for the first, at most 20 seconds.
    pub wait_seconds: f64,
}

/// What there was; possibly nothing.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReceivedCommands {
    /// The commands in order.
    pub messages: Vec<ReceivedCommand>,
}

/// One command and what deletes it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReceivedCommand {
    /// What deletes it.
    pub receipt: String,
    /// The JSON of an [`crate::Envelope`] of an [`crate::command::IssuedCommand`].
    pub body: String,
}

/// Removes commands that the sidecar has in its spool.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeleteCommands {
    /// What was received with them.
    pub receipts: Vec<String>,
}

/// Short-lived credentials for the queues and blobs of one run, and where those are.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunCredentials {
    /// Identifies the credentials.
    pub access_key_id: String,
    /// Signs with them.
    pub secret_access_key: String,
    /// Goes with every request.
    pub session_token: String,
    /// From then on they open nothing.
    pub expires_at: Timestamp,
    /// The region of the queues.
    pub region: String,
    /// The address of every service, when it is not the region's own: a local cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Where events go.
    pub events_queue_url: String,
    /// Where commands come from.
    pub commands_queue_url: String,
    /// Where large bodies go.
    pub bucket: String,
    /// What the names of this session's large bodies begin with.
    pub blob_prefix: String,
}
