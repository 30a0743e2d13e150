//! HTTP interface between a sidecar and the queues of an embedded server, modelled on SQS.
//!
//! Every request has the header `authorization: Bearer {GatewayToken}`. The token determines the run.
//!
//! | request | body | response |
//! |---|---|---|
//! | `POST /internal/gateway/events` | [`SendEvents`] | 200 [`SendResult`] |
//! | `POST /internal/gateway/commands/receive` | [`ReceiveCommands`] | 200 [`ReceivedCommands`] |
//! | `POST /internal/gateway/commands/delete` | [`DeleteCommands`] | 204 |
//! | `PUT /internal/gateway/blobs/{sha256}` | the bytes | 204 |
//! | `GET /internal/gateway/images/{sha256}` | | 200 the bytes of an image of the session, or 303 to them |
//! | `POST /internal/gateway/drafts` | [`SendDraft`] | 200 [`DraftResult`] |
//! | `POST /internal/gateway/credentials` | | 200 [`RunCredentials`]: direct access to SQS and S3, in the cloud |
//! | `POST /api/agent/sessions/{id}/authorize` | a tool call, with at most [`MAX_JUDGED_ARGUMENTS`] | 200 the verdict (decision 75) |
//! | `POST /internal/gateway/launch` | | 200 [`SidecarLaunch`](crate::launch::SidecarLaunch), for a container that has only its token |
//!
//! With `?leftovers=true` the credentials allow sending only, for the rest of a dead sidecar's spool. They are granted up to an
//! hour after the end of the run.
//!
//! Errors: 401 (the token is invalid; do not retry), 410 (the run is over; the sidecar ends), 503 and network errors (retry).

use pilothouse_domain::Timestamp;
use pilothouse_domain::value::DraftKind;
use serde::{Deserialize, Serialize};

/// Most bytes of a tool call's arguments that are judged, as JSON. A sidecar sends `{ "tooLarge": true }` for larger ones.
pub const MAX_JUDGED_ARGUMENTS: usize = 128 * 1024;

/// Sends events to the events queue: at most 10, in order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendEvents {
    /// Events to send.
    pub entries: Vec<SendEntry>,
}

/// An event to send.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendEntry {
    /// `{messageId}:{attempt}` (decision 10).
    pub deduplication_id: String,
    /// JSON of a signed envelope.
    pub body: String,
}

/// Which entries the broker accepted. The others have to be sent again.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendResult {
    /// Indexes of accepted entries in the request.
    pub accepted: Vec<usize>,
}

/// Sends the next part of a text that the agent is writing. It is shown to those who follow the session, and not stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendDraft {
    /// Whether the agent writes for its owner or thinks.
    pub kind: DraftKind,
    /// The number of the part within the text. Part 0 has everything so far.
    pub part: u32,
    /// At most [`Self::MAX_BYTES`]. Empty to ask for the followers only.
    pub text: String,
    /// The sequence of the last event before the text. The part is not shown before the entry of that event.
    #[serde(default)]
    pub after: u64,
}

impl SendDraft {
    /// Most bytes of a part.
    pub const MAX_BYTES: usize = 64 * 1024;
}

/// Who receives drafts of the session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DraftResult {
    /// Changes when somebody begins to follow, and then needs everything so far. Absent while nobody follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub followers: Option<u64>,
    /// The part was not shown, because an event before the text is still on its way. The whole text has to be sent again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_early: bool,
}

/// Receives commands of this run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReceiveCommands {
    /// Most commands to return, 1 to 10.
    pub max: usize,
    /// Seconds to wait for the first command, at most 20.
    pub wait_seconds: f64,
}

/// Received commands; may be empty.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReceivedCommands {
    /// The commands, in order.
    pub messages: Vec<ReceivedCommand>,
}

/// A received command.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReceivedCommand {
    /// Receipt for deleting the command.
    pub receipt: String,
    /// JSON of an [`crate::Envelope`] with a [`crate::command::IssuedCommand`].
    pub body: String,
}

/// Deletes commands that the sidecar stored in its spool.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeleteCommands {
    /// Receipts of the commands.
    pub receipts: Vec<String>,
}

/// Short-lived AWS credentials for the queues and blobs of one run, with their addresses.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunCredentials {
    /// AWS access key id.
    pub access_key_id: String,
    /// AWS secret access key.
    pub secret_access_key: String,
    /// AWS session token.
    pub session_token: String,
    /// When the credentials expire.
    pub expires_at: Timestamp,
    /// Region of the queues.
    pub region: String,
    /// Endpoint of all services, if it is not the region's own (local cloud).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Queue to send events to.
    pub events_queue_url: String,
    /// Queue to receive commands from.
    pub commands_queue_url: String,
    /// Bucket for large contents.
    pub bucket: String,
    /// Prefix of this session's blob keys.
    pub blob_prefix: String,
}
