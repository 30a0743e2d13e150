//! The message queue of a session in the API.

use pilothouse_domain::MessageId;
use pilothouse_domain::queue::{SessionMessage, SessionMessageQueue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The open messages of a session in delivery order (S0 8.7 `GetSessionMessageQueueQuery`).
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueView {
    /// The messages in delivery order; immediate ones come first.
    pub items: Vec<SessionMessage>,
    /// Whether delivery is on hold until the owner sends, promotes or releases a message.
    pub held: bool,
    /// The control version of the session.
    pub version: u64,
}

impl QueueView {
    /// The view of a queue.
    pub fn of(queue: &SessionMessageQueue, version: u64) -> Self {
        Self { items: queue.messages().to_vec(), held: queue.is_held(), version }
    }
}

/// The response to enqueueing a message.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnqueuedMessage {
    /// The message after the request.
    pub message: SessionMessage,
}

/// The response to clearing the queue.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClearedQueue {
    /// The messages that were cancelled. Messages that were already dispatched are not among them.
    pub cancelled: Vec<MessageId>,
}
