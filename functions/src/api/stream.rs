//! The live stream (S0 8.9): activity, status, metrics, queue and log chunks, each with a cursor.

use pilothouse_domain::AgentSessionId;
use pilothouse_domain::session::AgentSessionStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ProblemDocument;
use super::records::{ActivityView, LogChunkView};
use super::sessions::{BudgetView, MetricsView};

/// One message of the stream. A client that reconnects with `?after=` the last cursor that it saw misses nothing and
/// sees nothing twice.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StreamMessage {
    /// Where the stream stands after this message.
    pub cursor: String,
    /// What it says.
    #[serde(flatten)]
    pub body: StreamBody,
}

/// What a message of the stream says.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum StreamBody {
    /// A line of the activity stream.
    Activity(ActivityView),
    /// A piece of log.
    Log(LogChunkView),
    /// The session's status after a change.
    Status(StatusView),
    /// Usage after a change.
    Metrics(Box<UsageView>),
    /// The message queue changed.
    Queue(QueueChange),
    /// Everything up to the cursor has been sent; what follows is live.
    CaughtUp {},
}

/// Status in the stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusView {
    /// Where the session stands.
    pub status: AgentSessionStatus,
    /// The domain event that led there.
    pub event: String,
}

/// Usage in the stream: what the session has spent when the message is made.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageView {
    /// Metrics.
    pub metrics: MetricsView,
    /// Money.
    pub budget: BudgetView,
}

/// A change of the queue in the stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueChange {
    /// The domain event: `MessageEnqueuedEvent`, …
    pub event: String,
    /// The message, when it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<pilothouse_domain::MessageId>,
}

/// What a client of the `aws` profile says on its WebSocket: it wants to follow a session. Said again, it goes on from
/// the new `after`, or with another session; said now and then, it keeps a quiet connection alive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Subscribe {
    /// `subscribe`.
    pub action: SubscribeAction,
    /// The session to follow.
    pub session_id: AgentSessionId,
    /// The last cursor that was seen; none: from the session's first entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// The one action of the WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SubscribeAction {
    /// To follow a session.
    Subscribe,
}

/// What is said on the WebSocket of the `aws` profile when a subscription is refused. It has no cursor, as it is no
/// message of a session.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum SubscriptionAnswer {
    /// The session is not there, the cursor is none, or the input cannot be read.
    Problem(ProblemDocument),
}

/// The cursor of a place in the journal.
pub fn cursor(sequence: u64) -> String {
    format!("j{sequence}")
}

/// Reads a cursor: the journal sequence, and how many messages of the next entry were seen.
pub fn parse_cursor(cursor: &str) -> Option<(u64, usize)> {
    let rest = cursor.strip_prefix('j')?;
    match rest.split_once('.') {
        None => Some((rest.parse().ok()?, 0)),
        Some((sequence, seen)) => Some((sequence.parse().ok()?, seen.parse().ok()?)),
    }
}

/// The cursor after `seen` messages of the entry that follows `sequence`.
pub fn cursor_within(sequence: u64, seen: usize) -> String {
    format!("j{sequence}.{seen}")
}
