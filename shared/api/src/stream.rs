//! The live stream (S0 8.9): activity, status, usage, queue changes and log chunks, each with a cursor.

use pilothouse_domain::session::AgentSessionStatus;
use pilothouse_domain::value::DraftKind;
use pilothouse_domain::{AgentSessionId, ProjectId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ProblemDocument;
pub use super::cursor::{cursor, cursor_within, parse_cursor};
use super::records::{ActivityView, LogChunkView};
use super::sessions::{BudgetView, MetricsView};

/// A message of the live stream. A client that reconnects with `?after=` the last cursor that it saw neither misses nor repeats a
/// message.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StreamMessage {
    /// The position of the stream after this message. Pass it as `after` to resume.
    pub cursor: String,
    /// The content of the message.
    #[serde(flatten)]
    pub body: StreamBody,
}

/// The content of a message of the live stream.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum StreamBody {
    /// A line of the activity stream.
    Activity(ActivityView),
    /// A chunk of the log.
    Log(LogChunkView),
    /// The session's status after a change.
    Status(StatusView),
    /// Usage after a change.
    Metrics(Box<UsageView>),
    /// The message queue changed.
    Queue(QueueChange),
    /// A part of the text that the agent is writing. Sent on request (`drafts=true`) and by the embedded server only. The complete
    /// text follows as `activity`.
    Draft(DraftView),
    /// Everything up to the cursor has been sent; all later messages are live.
    CaughtUp {},
}

/// A change of the session's status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusView {
    /// The new status of the session.
    pub status: AgentSessionStatus,
    /// The domain event that caused the change.
    pub event: String,
}

/// A part of the text that the agent is writing. A client shows the parts in order from part 0 on, and discards them with the `activity`
/// that has the complete text, and at the end of the turn. It ignores a part that does not follow the last one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DraftView {
    /// Whether the agent writes for its owner or thinks.
    pub kind: DraftKind,
    /// The number of the part within the text. Part 0 has everything so far, and replaces earlier parts.
    pub part: u32,
    /// The text of the part.
    pub text: String,
}

/// The usage of a session at the time of the message.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageView {
    /// Tokens, cost and turns.
    pub metrics: MetricsView,
    /// The budget and the spend.
    pub budget: BudgetView,
}

/// A change of the message queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueChange {
    /// The domain event: `MessageEnqueuedEvent`, …
    pub event: String,
    /// The message that changed. Absent when the change concerns the whole queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<pilothouse_domain::MessageId>,
}

/// A client's request on the WebSocket of the `aws` profile to follow a session, a project or the inbox. Send it again to continue from
/// another cursor, or to follow something else. Sending it regularly keeps an idle connection open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Subscribe {
    /// The action: `subscribe`.
    pub action: SubscribeAction,
    /// The session to follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<AgentSessionId>,
    /// The project to follow instead, as messages of the type `ProjectMessage`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    /// What to follow instead of a session or a project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<SubscribeTopic>,
    /// The last cursor that the client saw. Absent: start at the first entry of the session, or with the
    /// state of the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// The actions of the WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SubscribeAction {
    /// Follow a session, a project or a topic.
    Subscribe,
}

/// What a connection can follow besides a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SubscribeTopic {
    /// The owner's inbox, as messages of the type `InboxMessage`. It takes no cursor.
    Decisions,
}

/// The response on the WebSocket of the `aws` profile to a subscription that is refused, or that follows a project. It has no cursor
/// because it is not part of a stream.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum SubscriptionResponse {
    /// The session does not exist, the cursor is invalid, or the request cannot be parsed.
    Problem(ProblemDocument),
    /// The connection follows the project.
    Subscribed {},
}
